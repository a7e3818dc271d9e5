//! The frame of each page: where one is, where one can go, and when it was read.

use maud::{DOCTYPE, Markup, html};

use super::assets;

/// The pages that one can go to from each: address and name.
const PAGES: [(&str, &str); 5] = [
    ("/", "Paths"),
    ("/flows", "Flows"),
    ("/evidence", "Evidence"),
    ("/events", "Events"),
    ("/host", "Host"),
];

/// A page before it is framed.
pub struct Page {
    /// Which of the pages it belongs to.
    pub at: &'static str,
    pub title: String,
    /// The part that stays while the rest is renewed.
    pub form: Markup,
    /// The part that is renewed.
    pub live: Markup,
}

/// The frame is the same on all pages of an agent.
#[derive(Clone, Debug)]
pub struct Frame {
    pub host: String,
    pub instance: String,
}

impl Frame {
    /// Writes the whole page, as of a time.
    pub fn page(&self, page: &Page, now: &str) -> Markup {
        let Self { host, instance } = self;
        let assets::Paths { style, script, icon } = assets::paths();
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (page.title) " · " (host) " · wad" }
                    link rel="stylesheet" href=(style);
                    link rel="icon" type="image/svg+xml" href=(icon);
                    script src=(script) defer {}
                }
                body {
                    a.skip href="#main" { "Skip to the content" }
                    header {
                        p { b { "wad" } " on " (host) }
                        nav aria-label="Pages" {
                            ul {
                                @for (at, name) in PAGES {
                                    li {
                                        a href=(at) aria-current=[(at == page.at).then_some("page")] {
                                            (name)
                                        }
                                    }
                                }
                            }
                        }
                        div #refresh hidden {}
                    }
                    main #main tabindex="-1" {
                        h1 { (page.title) }
                        (page.form)
                        div #live {
                            (page.live)
                            p.soft { "As of " time { (now) } }
                        }
                    }
                    footer {
                        "wad " (env!("CARGO_PKG_VERSION")) ", instance " (instance)
                        ". This page only shows; it changes nothing."
                    }
                }
            }
        }
    }
}
