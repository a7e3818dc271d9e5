//! The form that a message has as JSON.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// The one thing that there is a consent to.
pub const AGGRESSIVE: &str = "aggressive";

/// All that a message of whatever version has.
#[derive(Debug, Deserialize)]
pub struct Version {
    pub version: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Form {
    pub version: u32,
    pub every_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefixes: Option<Vec<IpNet>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic_bits_per_second: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rcvbuf_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sndbuf_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_tcp_memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    #[serde(default)]
    pub sending: DirectionForm,
    #[serde(default)]
    pub receiving: DirectionForm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<ConsentForm>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct DirectionForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub law: Option<ValueForm<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_window_bytes: Option<ValueForm<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_bits_per_second: Option<ValueForm<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rtt_us: Option<ValueForm<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_rate_bits_per_second: Option<ValueForm<f64>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limited_by: Vec<LimitForm>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ValueForm<T> {
    pub value: T,
    pub age_ms: u64,
    /// A word of [`wad_policy::heard::Source`].
    pub source: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct LimitForm {
    pub limit: String,
    pub part: f64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ConsentForm {
    pub to: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bits_per_second: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefixes: Vec<IpNet>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_ms: Option<u64>,
}
