//! The headers that tell a server who asks, made of what files hold at that time.

use std::{fmt::Write as _, fs, path::Path};

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use wad_toolbox::access::{Access, Credentials, HeaderText};

use crate::error::HttpError;

/// Returns them, marked as nothing that is shown.
pub fn headers(access: &Access) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::new();
    if let Some(credentials) = &access.credentials {
        let (text, file) = match credentials {
            Credentials::Token { file } => (format!("Bearer {}", secret(file, "token")?), file),
            Credentials::Basic { username, file } => {
                let pair = format!("{username}:{}", secret(file, "password")?);
                (format!("Basic {}", base64(pair.as_bytes())), file)
            }
        };
        headers.insert(AUTHORIZATION, value(&text, file, "token")?);
    }
    for header in &access.headers {
        let text = match &header.value {
            HeaderText::Given(text) => {
                let text = HeaderValue::from_str(text);
                text.expect("the configuration was checked")
            }
            HeaderText::File(file) => value(&secret(file, "value")?, file, "value")?,
        };
        headers.insert(header.name.clone(), text);
    }
    headers.values_mut().for_each(|value| value.set_sensitive(true));
    Ok(headers)
}

/// Reads a line that is not empty.
fn secret(file: &Path, what: &'static str) -> Result<String, HttpError> {
    let text = fs::read_to_string(file)
        .map_err(|source| HttpError::File { file: file.to_owned(), source })?;
    let text = text.trim();
    if text.is_empty() || text.contains(char::is_control) {
        return Err(HttpError::Secret { file: file.to_owned(), what });
    }
    Ok(text.to_owned())
}

fn value(text: &str, file: &Path, what: &'static str) -> Result<HeaderValue, HttpError> {
    HeaderValue::from_str(text).map_err(|_| HttpError::Secret { file: file.to_owned(), what })
}

/// Writes bytes as text (RFC 4648 section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |at| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize] as char;
            let _ = text.write_char(if at > three.len() { '=' } else { digit });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4648 section 10, and of RFC 7617 section 2.
    #[test]
    fn bytes_become_text() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("Aladdin:open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            ("\u{ff}\u{3ff}~", "w7/Pv34="),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
