//! RFC 4898 has fields that Linux keeps no equal of.

/// Names of the RFC without their prefixes, and why there is no instrument. A field is
/// a member of `struct tcp_sock`.
pub const WITHOUT_EQUAL: &[(&str, &str)] = &[
    // tcpEStatsPerf
    ("HCDataOctetsIn", "what comes twice is not counted: HCThruOctetsReceived is without it"),
    ("StartTimeStamp", "the time of the reading less ElapsedSecs"),
    ("MaxPipeSize, MaxRwinSent, MaxRwinRcvd", "extremes are not kept"),
    ("ZeroRwinSent, ZeroRwinRcvd", "windows of zero are counted by host"),
    ("SndLimTransRwin, SndLimTransCwnd, SndLimTransSnd", "times are kept, changes are not"),
    // tcpEStatsPath
    ("NonRecovDAEpisodes, NonRecovDA, DupAckEpisodes", "duplicate ACKs are not counted"),
    ("SumOctetsReordered", "events of reordering are counted: ReorderEvents"),
    ("SampleRTT", "the latest sample is not kept, but for SmoothedRTT"),
    ("MaxRTO, MinRTO", "extremes are not kept, but for those of the RTT"),
    ("SumRTT, CountRTT, PreCongSumRTT, PostCongSumRTT, PostCongCountRTT", "RTTs are not summed"),
    ("PreCongSumCwnd", "windows are not summed; reductions are counted: CongSignals"),
    ("IpTtl, IpTosIn, IpTosOut", "of the packets that come no TTL is kept; TOS is an option"),
    ("ECNsignals, CERcvd, ECESent", "delivered with CE were so many: the field `delivered_ce`"),
    ("RcvRTT", "eight times it is the field `rcv_rtt_est.rtt_us`, where this end measures"),
    ("DupAcksOut", "duplicate ACKs are not counted"),
    // tcpEStatsStack
    ("ActiveOpen", "a flow's `role` says who connected"),
    ("MSSSent, MSSRcvd", "the fields `advmss` and `rx_opt.mss_clamp`"),
    ("WinScaleSent, WinScaleRcvd", "the fields `rx_opt.rcv_wscale` and `rx_opt.snd_wscale`"),
    ("TimeStamps, WillSendSACK, WillUseSACK", "the fields `rx_opt.tstamp_ok`, `rx_opt.sack_ok`"),
    ("ECN, Nagle", "the fields `ecn_flags` and `nonagle`"),
    ("State, InRecovery", "the field `inet_conn.icsk_ca_state`: 3 in recovery, 4 after a timeout"),
    ("MaxSsCwnd, MaxCaCwnd, MaxSsthresh, MinSsthresh", "extremes are not kept"),
    ("DupAcksIn", "duplicate ACKs are not counted"),
    ("SpuriousFrDetected, SpuriousRtoDetected", "reductions undone are counted by host"),
    ("SoftErrors, SoftErrorReason", "the last is the field `inet_conn.icsk_inet.sk.sk_err_soft`"),
    ("SlowStart, CongAvoid", "increases of the window are not counted"),
    ("OtherReductions, CongOverCount, FastRetran", "reductions are counted: CongSignals"),
    ("SubsequentTimeouts", "from Linux 6.7 on the field `total_rto`, less Timeouts"),
    ("AbruptTimeouts", "timeouts are not told apart"),
    ("SACKsRcvd, SACKBlocksRcvd", "counted neither by flow nor by host"),
    ("MaxMSS, MinMSS", "extremes are not kept"),
    ("SndInitial, RecInitial", "the first sequence numbers are not kept"),
    ("MaxRetxQueue, MaxReasmQueue", "extremes are not kept"),
    ("CurReasmQueue", "of data out of order segments are counted: the field `rcv_ooopack`"),
    // tcpEStatsApp
    ("SndUna, SndNxt, SndMax, RcvNxt", "the fields `snd_una`, `snd_nxt`, `snd_nxt`, `rcv_nxt`"),
    ("MaxAppWQueue, MaxAppRQueue", "extremes are not kept"),
    // tcpEStatsTune
    ("LimCwnd", "the field `snd_cwnd_clamp`, and what policies set: `wad explain`"),
    ("LimSsthresh, LimRwin, LimMSS", "what policies and applications set: `wad explain`"),
];
