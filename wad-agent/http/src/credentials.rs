//! The headers that tell a server who asks, made of what files hold at that time.

use std::{fs, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use wad_toolbox::{
    access::{Access, Credentials, HeaderText},
    others_file,
};

use crate::error::HttpError;

/// Returns them, marked as nothing that is shown.
pub fn headers(access: &Access) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::new();
    if let Some(credentials) = &access.credentials {
        let (text, file) = match credentials {
            Credentials::Token { file } => (format!("Bearer {}", secret(file, "token")?), file),
            Credentials::Basic { username, file } => {
                let pair = format!("{username}:{}", secret(file, "password")?);
                (format!("Basic {}", BASE64_STANDARD.encode(pair)), file)
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
        .map_err(|error| others_file::told(file, error))
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
