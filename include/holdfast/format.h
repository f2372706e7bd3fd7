// std::format and std::print for Error, Token and Mode, written as their operator<< writes them.
//
// Apart from the other headers because <format> takes long to compile. Empty where the standard
// library has no <format> (gcc 12). A format takes the options of a string: "{:>40}".
#pragma once

#include <version>

#include "holdfast/errc.h"
#include "holdfast/export.h"
#include "holdfast/mode.h"
#include "holdfast/token.h"

#ifdef __cpp_lib_format

#include <format>
#include <string>
#include <string_view>

template <>
struct std::formatter<holdfast::Error> : std::formatter<std::string_view> {
  auto format(const holdfast::Error& error, auto& context) const {
    std::string text(errc_name(error.code()));
    text += ": ";
    text += error.message();
    return std::formatter<std::string_view>::format(text, context);
  }
};

template <>
struct std::formatter<holdfast::Token> : std::formatter<std::string_view> {
  auto format(const holdfast::Token& token, auto& context) const {
    return std::formatter<std::string_view>::format(token.to_string(), context);
  }
};

template <>
struct std::formatter<holdfast::Mode> : std::formatter<std::string_view> {
  auto format(const holdfast::Mode& mode, auto& context) const {
    return std::formatter<std::string_view>::format(mode.to_string(), context);
  }
};

#endif
