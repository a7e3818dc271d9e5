//! The error says what a filter cannot be.

/// Says what is wrong with a filter.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error(
        "{0:?} is no address and no prefix: write 203.0.113.5, 203.0.113.0/24 or 2001:db8::/32"
    )]
    NoPrefix(String),
    #[error("{0:?} is no cookie: write a number, or 0x and what `ss -e` shows as sk:")]
    NoCookie(String),
    #[error("{0:?} is no number of a {1}")]
    NoNumber(String, &'static str),
    #[error(
        "{0:?} is not known here: it takes `path`, `remote`, `cookie`, `user`, `pid`, `process`, \
         `cgroup`, `unit`, `container`, `pod`, `namespace`, `all` and `field`"
    )]
    Unknown(String),
}
