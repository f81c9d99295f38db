//! The web page: markup, style and scripts from files of their own, sent as one response.

use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use std::sync::LazyLock;

/// The scripts share one scope, in this order.
const SCRIPTS: [&str; 12] = [
    include_str!("page/page.js"),
    include_str!("page/server.js"),
    include_str!("page/answers.js"),
    include_str!("page/classes.js"),
    include_str!("page/pad.js"),
    include_str!("page/drawing.js"),
    include_str!("page/photos.js"),
    include_str!("page/asking.js"),
    include_str!("page/reliability.js"),
    include_str!("page/work.js"),
    include_str!("page/examples.js"),
    include_str!("page/tabs.js"),
];

static PAGE: LazyLock<String> = LazyLock::new(|| {
    let markup = include_str!("page/index.html").replacen("{style}", include_str!("page/style.css"), 1);
    markup.replacen("{script}", &SCRIPTS.concat(), 1)
});

/// The page brings everything along: its scripts and styles may come from nowhere else.
pub(crate) async fn show() -> Response {
    let policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src 'self' data: blob:; \
                  connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let mut response = Html(PAGE.as_str()).into_response();
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

/// The photos of its example, made by `scripts/web/make_photos.py`.
pub(crate) async fn photos() -> Response {
    let kind = HeaderValue::from_static("image/jpeg");
    ([(header::CONTENT_TYPE, kind)], &include_bytes!("page/photos.jpg")[..]).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_in_its_place() {
        let order = [
            "<style>\n",
            "</style>",
            "<canvas",
            "<script>\n\"use strict\";",
            "class LiveTask",
            "class Pad",
            "</script>",
        ];
        let places = order.map(|part| PAGE.find(part).unwrap_or_else(|| panic!("{part} is missing")));
        assert!(places.is_sorted(), "{places:?}");
        assert!(!PAGE.contains("{style}") && !PAGE.contains("{script}"));
    }
}
