//! The names of the instruments, as constants: what is made of one names it by these.
//!
//! As in RFC 4898, without its prefix (`tcpEStatsPerf`, `tcpEStatsPath`, ...).

pub const ELAPSED_SECS: &str = "ElapsedSecs";
pub const HC_DATA_OCTETS_OUT: &str = "HCDataOctetsOut";
pub const HC_THRU_OCTETS_ACKED: &str = "HCThruOctetsAcked";
pub const HC_THRU_OCTETS_RECEIVED: &str = "HCThruOctetsReceived";
pub const SEGS_OUT: &str = "SegsOut";
pub const SEGS_IN: &str = "SegsIn";
pub const DATA_SEGS_OUT: &str = "DataSegsOut";
pub const DATA_SEGS_IN: &str = "DataSegsIn";
pub const SEGS_RETRANS: &str = "SegsRetrans";
pub const OCTETS_RETRANS: &str = "OctetsRetrans";
pub const DSACK_DUPS: &str = "DSACKDups";
pub const CUR_TIMEOUT_COUNT: &str = "CurTimeoutCount";
pub const TIMEOUTS: &str = "Timeouts";
pub const CONG_SIGNALS: &str = "CongSignals";
pub const SEND_STALL: &str = "SendStall";
pub const CUR_CWND: &str = "CurCwnd";
pub const CUR_SSTHRESH: &str = "CurSsthresh";
pub const CUR_MSS: &str = "CurMSS";
pub const PIPE_SIZE: &str = "PipeSize";
pub const CUR_RETX_QUEUE: &str = "CurRetxQueue";
pub const CUR_APP_W_QUEUE: &str = "CurAppWQueue";
pub const CUR_APP_R_QUEUE: &str = "CurAppRQueue";
pub const CUR_RWIN_RCVD: &str = "CurRwinRcvd";
pub const CUR_RWIN_SENT: &str = "CurRwinSent";
pub const SMOOTHED_RTT: &str = "SmoothedRTT";
pub const RTT_VAR: &str = "RTTVar";
pub const MIN_RTT: &str = "MinRTT";
pub const MAX_RTT: &str = "MaxRTT";
pub const CUR_RTO: &str = "CurRTO";
pub const RETRAN_THRESH: &str = "RetranThresh";
pub const REORDER_EVENTS: &str = "ReorderEvents";
pub const SND_LIM_TIME_RWIN: &str = "SndLimTimeRwin";
pub const SND_LIM_TIME_CWND: &str = "SndLimTimeCwnd";
pub const SND_LIM_TIME_SND: &str = "SndLimTimeSnd";
pub const SND_LIM_TIME_SNDBUF: &str = "SndLimTimeSndbuf";
pub const DELIVERY_RATE: &str = "DeliveryRate";
pub const PACING_RATE: &str = "PacingRate";
pub const SND_BUF: &str = "SndBuf";
pub const RCV_BUF: &str = "RcvBuf";
pub const IS_APP_LIMITED: &str = "IsAppLimited";
pub const PHASE: &str = "Phase";
