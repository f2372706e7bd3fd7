// All words of the page, in each language. `{name}` is replaced by what the caller gives.

const TEXTS = {
  en: {
    asking: "Asking …",
    leads: "Leads",
    stands_by: "Stands by",
    away: "Not reachable",
    refused: "Refused",
    language: "Language",
    pause: "Pause",
    go_on: "Go on",
    updated: "Updated {time}",
    paused: "Paused. This is the state at {time}.",
    leader: "Leader",
    this_server: "{address} (this server)",
    not_known: "not known",
    address: "This server",
    journal: "Journal",
    journal_full: "Journal is full",
    shards: "Shards",
    shards_led: "{leading} of {shards}: {own}",
    other_shards: "Other shards",
    holders: "Holders",
    waiters: "Waiters",
    uptime: "Up for",
    version: "Version",
    locks: "Locks",
    prefix: "Name begins with",
    count: "{count} on this page",
    previous: "Previous page",
    next: "Next page",
    name: "Lock",
    owner: "Owner",
    where: "Where",
    host: "Host",
    process: "Process",
    program: "Program",
    since: "Requested",
    held_for: "Age",
    waits: "Waits for {time}, since {since} ({mode}). Its request ends in {left}.",
    waits_unknown: "Waits ({mode}). Its request ends in {left}.",
    lease_left: "Lease left",
    unless_renewed: "{time}, unless it is renewed",
    delay: "lock-delay {left}",
    delay_left: "Lock-delay left",
    delay_keeps: "{left}. The holder did not release the lock, and no longer counts on it. The "
      + "delay keeps it closed.",
    ended: "ended",
    reason: "Reason",
    token: "Token",
    waiting: "Waiting, longest",
    mode: "Mode",
    exclusive: "exclusive",
    shared: "shared",
    permits: "permits",
    nobody: "nobody",
    unnamed: "no name given",
    and_more: "{count} holders: {owner}, …",
    empty: "No lock is held or waited for.",
    empty_prefix: "No lock whose name begins with “{prefix}” is held or waited for.",
    no_more: "No more locks follow the previous page.",
    close: "Close",
    queue: "Queue, in order",
    nobody_holds: "Nobody holds this lock.",
    nobody_waits: "Nobody waits for this lock.",
    last_break: "Last break",
    broken_by: "Broken by",
    break_button: "Break …",
    break_label: "Break the hold of {owner} with token {token}",
    no_break_here: "This lock cannot be broken here. Use: holdfast break",
    break_title: "Break a hold",
    break_warning: "The lock goes to the next waiter at once. The holder is not stopped: it may "
      + "still work. Only a guard that checks tokens refuses its late writes. If this holder has "
      + "gone meanwhile, nothing is broken.",
    break_reason: "Reason (required)",
    break_owner: "Your name (optional)",
    break_now: "Break it",
    breaking: "Breaking …",
    cancel: "Cancel",
    say_why: "Say why: the reason is kept with the lock.",
    too_long: "This text has more than 256 bytes. Shorten it.",
    broken: "The hold of {name} with token {token} is broken.",
    not_reachable: "The server is not reachable. Last seen at {time}. The page asks again every "
      + "2 seconds; what it shows is old.",
    never_reached: "The server is not reachable. The page asks again every 2 seconds.",
    standing_by: "The server at {leader} leads, and this one cannot ask it: open the HTTP port of "
      + "that server.",
    part: "The locks of {count} shards are missing here, because the servers that lead them do "
      + "not answer this one. Open the HTTP port of each to see them. {leaders}",
    no_shard: "This server leads no shard, and cannot ask those that do: open the HTTP port of "
      + "one of them. {leaders}",
    no_leader: "This server stands by, and no server leads yet. The page asks again every 2 "
      + "seconds.",
    silent: "The journal does not answer: no lock is granted until it does. Look at its servers.",
    full: "The journal is full: no lock is granted, only renewals go on. Free space on its disk.",
    restored: "The journal is a restored copy: no lock is granted for {time}. When all clients are "
      + "stopped, start the server with --clients-stopped.",
    no_state: "The state of the server is not shown: {why}",
    no_list: "The locks are not shown: {why}",
    no_lock: "The lock is not shown: {why}",
    not_broken: "Not broken. {why}",
    lost_answer: "The server did not answer, so the hold may be broken or not. Look at the lock "
      + "again.",
    why_not_held: "Nobody holds the lock with this token any more. Close this and look at the "
      + "lock again.",
    why_no_right: "Your user has no permission for this. Ask for it in the users file, or type a "
      + "prefix that you may observe.",
    why_log_in: "The server wants a user and a password. Reload the page to log in.",
    why_busy_logins: "Too many users log in at once. Try again in a second.",
    why_standing_by: "This server does not lead the lock, and cannot ask the server that does. "
      + "Open the HTTP port of that server.",
    why_too_many: "Too many requests. Wait, then try again.",
    why_unavailable: "The service cannot serve this now. Try again.",
    why_outcome_unknown: "The outcome is unknown. Look at the lock again.",
    server_says: "{why} (The server says: {message})",
    server_only: "The server says: {message}. Next: {next}.",
  },
  zh: {
    asking: "正在查询…",
    leads: "领导者",
    stands_by: "待命",
    away: "无法连接",
    refused: "被拒绝",
    language: "语言",
    pause: "暂停",
    go_on: "继续",
    updated: "更新于 {time}",
    paused: "已暂停。以下是 {time} 的状态。",
    leader: "领导者",
    this_server: "{address}（本服务器）",
    not_known: "未知",
    address: "本服务器",
    journal: "日志",
    journal_full: "日志已满",
    shards: "分片",
    shards_led: "{shards} 个中的 {leading} 个：{own}",
    other_shards: "其他分片",
    holders: "持有者",
    waiters: "等待者",
    uptime: "已运行",
    version: "版本",
    locks: "锁",
    prefix: "名称前缀",
    count: "本页 {count} 个",
    previous: "上一页",
    next: "下一页",
    name: "锁",
    owner: "所有者",
    where: "位置",
    host: "主机",
    process: "进程",
    program: "程序",
    since: "请求时间",
    held_for: "已过",
    waits: "已等待 {time}，自 {since} 起（{mode}）。其请求剩余 {left}。",
    waits_unknown: "等待中（{mode}）。其请求剩余 {left}。",
    lease_left: "租约剩余",
    unless_renewed: "{time}，除非续期",
    delay: "锁延迟 {left}",
    delay_left: "锁延迟剩余",
    delay_keeps: "{left}。持有者没有释放锁，也已不再依赖它；锁延迟使它保持关闭。",
    ended: "已到期",
    reason: "原因",
    token: "令牌",
    waiting: "等待数 · 最久",
    mode: "模式",
    exclusive: "独占",
    shared: "共享",
    permits: "许可",
    nobody: "无人持有",
    unnamed: "未填名称",
    and_more: "{count} 个持有者：{owner} 等",
    empty: "没有被持有或等待的锁。",
    empty_prefix: "没有名称以“{prefix}”开头的锁被持有或等待。",
    no_more: "上一页之后没有更多的锁。",
    close: "关闭",
    queue: "队列（按顺序）",
    nobody_holds: "无人持有此锁。",
    nobody_waits: "无人等待此锁。",
    last_break: "上次强制解除",
    broken_by: "解除者",
    break_button: "强制解除…",
    break_label: "强制解除 {owner} 的持有，令牌 {token}",
    no_break_here: "此处不能强制解除这个锁。请使用：holdfast break",
    break_title: "强制解除持有",
    break_warning: "锁会立即交给下一个等待者。原持有者不会被停止，可能仍在工作；只有检查令牌的防护才会"
      + "拒绝它迟到的写入。如果该持有者此时已经离开，则什么都不会解除。",
    break_reason: "原因（必填）",
    break_owner: "您的名称（可选）",
    break_now: "强制解除",
    breaking: "正在解除…",
    cancel: "取消",
    say_why: "请说明原因：原因会与锁一起保存。",
    too_long: "文本超过 256 字节，请缩短。",
    broken: "已强制解除 {name} 上令牌为 {token} 的持有。",
    not_reachable: "无法连接服务器。最后一次连接于 {time}。页面每 2 秒重试一次；所示内容已过时。",
    never_reached: "无法连接服务器。页面每 2 秒重试一次。",
    standing_by: "当前领导者是 {leader}，本服务器无法向它查询：请打开该服务器的 HTTP 端口。",
    part: "本页缺少 {count} 个分片的锁，因为领导它们的服务器没有应答本服务器。请打开它们各自的 HTTP 端口。{leaders}",
    no_shard: "本服务器不领导任何分片，也无法向领导它们的服务器查询：请打开其中一台的 HTTP 端口。{leaders}",
    no_leader: "本服务器处于待命状态，目前还没有领导者。页面每 2 秒重试一次。",
    silent: "日志没有响应：在它恢复响应之前不授予锁。请检查其服务器。",
    full: "日志已满：不再授予锁，只有续期继续。请释放其磁盘空间。",
    restored: "日志是恢复的副本：{time} 内不授予任何锁。若所有客户端都已停止，请用 --clients-stopped 启动服务器。",
    no_state: "未显示服务器状态：{why}",
    no_list: "未显示锁列表：{why}",
    no_lock: "未显示此锁：{why}",
    not_broken: "未解除。{why}",
    lost_answer: "服务器没有应答，持有可能已解除，也可能没有。请再次查看此锁。",
    why_not_held: "此令牌已不再持有该锁。请关闭对话框并再次查看此锁。",
    why_no_right: "您的用户没有此权限。请在用户文件中申请，或输入您可以查看的前缀。",
    why_log_in: "服务器要求用户名和密码。请重新加载页面并登录。",
    why_busy_logins: "同时登录的用户过多。请稍后再试。",
    why_standing_by: "本服务器不领导此锁，也无法向领导它的服务器查询。请打开那台服务器的 HTTP 端口。",
    why_too_many: "请求过多。请稍后再试。",
    why_unavailable: "服务暂时无法处理。请重试。",
    why_outcome_unknown: "结果未知。请再次查看此锁。",
    server_says: "{why}（服务器的说明：{message}）",
    server_only: "服务器的说明：{message}。下一步：{next}。",
  },
};

const LANGUAGE_TAGS = { en: "en", zh: "zh-CN" };
const KEPT_AS = "holdfast.language";

const UNITS = {
  en: { day: " d", hour: " h", minute: " min", second: " s", between: " " },
  zh: { day: " 天", hour: " 小时", minute: " 分", second: " 秒", between: " " },
};

// A browser may forbid to keep anything. Then the choice lasts as long as the page.
function kept() {
  try {
    return localStorage.getItem(KEPT_AS);
  } catch {
    return null;
  }
}

function keep(language) {
  try {
    localStorage.setItem(KEPT_AS, language);
  } catch {
    // See kept().
  }
}

let chosen = "en";

export const language = () => chosen;

function apply(wanted) {
  chosen = wanted in TEXTS ? wanted : "en";
  document.documentElement.lang = LANGUAGE_TAGS[chosen];
  for (const node of document.querySelectorAll("[data-text]")) {
    node.textContent = t(node.dataset.text);
  }
}

export function beginLanguage() {
  apply(kept() ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en"));
}

export function chooseLanguage(wanted) {
  apply(wanted);
  keep(chosen);
}

export const has = (key) => key in TEXTS[chosen];

export function t(key, values = {}) {
  return TEXTS[chosen][key].replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

// "4 min 10 s": the two largest units that are not 0.
export function duration(ms) {
  const units = UNITS[chosen];
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [days, hours, minutes, rest] = [Math.floor(seconds / 86400),
    Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60];
  if (days > 0) return `${days}${units.day}${units.between}${hours}${units.hour}`;
  if (hours > 0) return `${hours}${units.hour}${units.between}${minutes}${units.minute}`;
  if (minutes > 0) return `${minutes}${units.minute}${units.between}${rest}${units.second}`;
  return `${rest}${units.second}`;
}

const two = (number) => String(number).padStart(2, "0");

export const clock = (date) =>
  `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;

// The day is left out when it is today.
export function moment(unixMs) {
  if (!(unixMs > 0)) return "";
  const date = new Date(unixMs);
  if (date.toDateString() === new Date().toDateString()) return clock(date);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(date)}`;
}

// What happened, and what to do next. `error` is one of calls.js.
export function explain(error) {
  const message = error.message ?? "";
  const key = `why_${error.code}`;
  if (!has(key)) {
    return t("server_only", { message: message || error.code, next: error.next || "?" });
  }
  return message === "" ? t(key) : t("server_says", { why: t(key), message });
}
