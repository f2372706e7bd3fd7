module holdfast/ids-peers

go 1.26.8

require github.com/sony/sonyflake/v2 v2.2.0
