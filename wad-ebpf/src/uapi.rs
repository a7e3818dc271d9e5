//! Socket options by the kernel's numbers: include/uapi/asm-generic/socket.h,
//! include/linux/socket.h, include/uapi/linux/in.h, in6.h, tcp.h, bpf.h.

pub const SOL_IP: i32 = 0;
pub const SOL_SOCKET: i32 = 1;
pub const SOL_TCP: i32 = 6;
pub const SOL_IPV6: i32 = 41;
pub const IP_TOS: i32 = 1;
pub const SO_SNDBUF: i32 = 7;
pub const SO_RCVBUF: i32 = 8;
pub const SO_PRIORITY: i32 = 12;
pub const SO_SNDBUFFORCE: i32 = 32;
pub const SO_RCVBUFFORCE: i32 = 33;
pub const SO_MAX_PACING_RATE: i32 = 47;
pub const TCP_WINDOW_CLAMP: i32 = 10;
pub const TCP_CONGESTION: i32 = 13;
pub const TCP_NOTSENT_LOWAT: i32 = 25;
pub const IPV6_TCLASS: i32 = 67;
pub const TCP_BPF_IW: i32 = 1001;
pub const TCP_BPF_DELACK_MAX: i32 = 1003;
/// Linux 6.12.
pub const TCP_BPF_SOCK_OPS_CB_FLAGS: i32 = 1008;
