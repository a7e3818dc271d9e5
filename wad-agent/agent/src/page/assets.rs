//! The page is drawn with a style, a script and an icon. Each has the hash of its content
//! in its name, so that browsers keep it for good, and never show it with another version's page.

use std::sync::LazyLock;

use axum::{
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};

/// A file of the page.
struct Asset {
    content: &'static str,
    content_type: &'static str,
    /// The path that it is asked for by.
    at: String,
}

impl Asset {
    fn new(name: &str, extension: &str, content_type: &'static str, content: &'static str) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, content.as_bytes());
        let hash: String = digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Self { content, content_type, at: format!("/assets/{name}.{hash}.{extension}") }
    }
}

static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("page", "css", "text/css; charset=utf-8", include_str!("assets/page.css"))
});
static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("page", "js", "text/javascript; charset=utf-8", include_str!("assets/page.js"))
});
static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("assets/icon.svg")));

/// The paths of all of them.
pub struct Paths {
    pub style: &'static str,
    pub script: &'static str,
    pub icon: &'static str,
}

/// Returns where they are asked for.
pub fn paths() -> Paths {
    Paths { style: &STYLE.at, script: &SCRIPT.at, icon: &ICON.at }
}

/// A year, and no question whether it is so still (RFC 8246).
const FOR_GOOD: (HeaderName, &str) = (header::CACHE_CONTROL, "public, max-age=31536000, immutable");

/// Answers with the file of a path; of another version's nobody has any.
pub fn answer(path: &str) -> Response {
    match [&STYLE, &SCRIPT, &ICON].into_iter().find(|asset| asset.at == path) {
        Some(asset) => {
            ([FOR_GOOD, (header::CONTENT_TYPE, asset.content_type)], asset.content).into_response()
        }
        None => (StatusCode::NOT_FOUND, "no such file\n").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_content() {
        let answered = answer(paths().script);
        assert_eq!(answered.status(), StatusCode::OK);
        assert!(answered.headers()[header::CACHE_CONTROL].to_str().unwrap().ends_with("immutable"));
        assert_eq!(answer("/assets/page.js").status(), StatusCode::NOT_FOUND);
        assert_ne!(paths().style[..20], paths().script[..20]);
    }

    #[test]
    fn the_script_is_small() {
        assert!(SCRIPT.content.len() <= 10_000, "{}", SCRIPT.content.len());
    }

    #[test]
    fn nothing_is_asked_of_other_hosts() {
        for asset in [&STYLE, &SCRIPT, &ICON] {
            let text = asset.content.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("//") || asset.content_type.starts_with("text/javascript"));
            assert!(!text.contains("http:") && !text.contains("https:") && !text.contains("url("));
        }
    }
}
