//! A report as one page of HTML, which asks for nothing else: styles and pictures are in it.

use std::fmt::{self, Display};

use wad_agent::evidence::ExperimentTold;
use wad_svg::escaped;
use wad_toolbox::amounts::Time;

use super::{picture::picture, words};

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n<title>wad report</title>\n<style>\n\
    :root{color-scheme:light dark}\n\
    body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\n\
    table{border-collapse:collapse;margin:1rem 0}\n\
    .wide{overflow-x:auto}\n\
    th,td{padding:.25rem .75rem .25rem 0;text-align:left;border-bottom:1px solid #8888}\n\
    td.n{text-align:right;font-variant-numeric:tabular-nums}\n\
    dt{font-weight:600}dd{margin:0 0 .5rem}\n\
    figure{margin:1rem 0}figure svg{max-width:100%;height:auto}\n\
    </style>\n<h1>Does it help?</h1>\n";

/// All experiments, one after the other.
pub struct Html<'p>(pub &'p [ExperimentTold]);

impl Display for Html<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        if self.0.is_empty() {
            f.write_str("<p>There is no experiment, and none is kept of that time.</p>\n")?;
        }
        self.0.iter().try_for_each(|it| write(it, f))?;
        f.write_str("</html>\n")
    }
}

fn write(it: &ExperimentTold, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "<h2>Path {}</h2>\n<dl>", escaped(&it.path))?;
    let (length, burn_in) = (Time(it.block_seconds), Time(it.burn_in_seconds));
    let mut rows = vec![
        ("State", words::state(it)),
        ("Compared", format!("new connections with the policy, and without: {}", it.subject)),
        ("When", format!("{} to {}, at the latest to {}", it.begins, it.reached, it.ends)),
        ("How", format!("blocks of {length}, {burn_in} of burn-in, seed {}", it.seed)),
        ("Counted", words::counted(&it.counts)),
    ];
    if !it.neighbours.is_empty() {
        rows.push(("Neighbours", it.neighbours.join(", ")));
    }
    rows.extend(words::not_counted(&it.counts).into_iter().map(|words| ("Not counted", words)));
    for (term, words) in rows {
        writeln!(f, "<dt>{term}</dt><dd>{}</dd>", escaped(&words))?;
    }
    writeln!(f, "</dl>")?;
    let about = "How many times better each metric is with tuning, and the ratios that are \
                 possible; the same numbers are in the table";
    writeln!(f, "<figure role=\"img\" aria-label=\"{about}\">")?;
    write!(f, "{}", picture(&it.found))?;
    writeln!(f, "<figcaption>{about}.</figcaption></figure>")?;
    let titles = ["Metric", "Verdict", "Times better", "Possible", "Equal", "Pairs", "More pairs"];
    table(f, titles, it.found.iter().map(words::row))?;
    let sizes: Vec<_> = it.found.iter().flat_map(words::sizes).collect();
    if !sizes.is_empty() {
        table(f, ["By size, not judged", "From", "Times better", "Pairs"], sizes.into_iter())?;
    }
    writeln!(f, "<h3>What it cannot say</h3>\n<ul>\n<li>{}</li>", escaped(&words::sure(it)))?;
    for doubt in words::doubts(it) {
        writeln!(f, "<li>{}</li>", escaped(&doubt))?;
    }
    writeln!(f, "</ul>")
}

/// Writes a table whose first column says what a row is.
fn table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    titles: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> fmt::Result {
    write!(f, "<div class=\"wide\"><table>\n<tr>")?;
    titles.iter().try_for_each(|title| write!(f, "<th scope=\"col\">{title}</th>"))?;
    writeln!(f, "</tr>")?;
    for row in rows {
        write!(f, "<tr>")?;
        for (column, cell) in row.iter().enumerate() {
            match column {
                0 => write!(f, "<th scope=\"row\">{}</th>", escaped(cell))?,
                _ => write!(f, "<td class=\"n\">{}</td>", escaped(cell))?,
            }
        }
        writeln!(f, "</tr>")?;
    }
    writeln!(f, "</table></div>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::told;

    #[test]
    fn a_page_asks_for_nothing_and_shows_what_it_is_told_as_text() {
        let mut told = told();
        told.path = "<script>&\"".to_owned();
        let page = Html(&[told]).to_string();
        assert!(page.contains("<h2>Path &lt;script>&amp;\"</h2>"), "{page}");
        for asking in ["<script", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(asking), "{asking}");
        }
        let urls: Vec<_> = page.match_indices("http").collect();
        let spaces = page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count();
        assert_eq!(urls.len(), spaces, "but for the name of a space");
        for tag in ["table", "figure", "svg", "dl", "ul", "tr", "th", "td"] {
            let begun = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(begun, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}
