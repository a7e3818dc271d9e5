//! Pictures of lines over axes, as SVG. Lengths are in pixels.

mod scale;

use std::fmt::{Display, Write as _};

pub use self::scale::Scale;

/// A place, from the left and from the top.
pub type At = (f64, f64);

/// The colours are told apart by the colour-blind, too (Okabe and Ito; grey for their
/// yellow).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"];

/// So many lines have colours of their own.
pub const MOST_COLOURS: usize = COLOURS.len();

/// All text, and the lines of axes. Who draws adds the classes of what it draws.
const STYLE: &str = "text{font-family:system-ui,'DejaVu Sans',sans-serif;font-size:13px;fill:#333}\
    .grid{stroke:#e4e4e4}.axis{stroke:#888}";

/// Returns the colour of a line.
#[must_use]
pub fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

/// A picture that is being drawn.
#[derive(Debug)]
pub struct Picture(String);

impl Picture {
    /// Begins a picture of this width and height, with the style of further classes.
    #[must_use]
    pub fn new((width, height): (f64, f64), style: &str) -> Self {
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\">\n<style>{STYLE}{style}</style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        ))
    }

    /// Begins a picture that is part of a page, which has the style of its classes: a title, and
    /// what it shows, for those who do not see it. `name` is its own on that page, of plain
    /// letters.
    #[must_use]
    pub fn within_page((width, height): (f64, f64), name: &str, [title, about]: [&str; 2]) -> Self {
        let [title, about] = [title, about].map(escaped);
        Self(format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-labelledby=\"{name}-title {name}-about\">\n<title id=\"{name}-title\">{title}\
             </title>\n<desc id=\"{name}-about\">{about}</desc>\n"
        ))
    }

    /// Returns the picture when all is drawn.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }

    /// Draws a straight line.
    pub fn line(&mut self, class: &str, from: At, to: At) {
        self.write(format_args!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// Draws a filled area between two places, and says what it is where somebody points at it.
    pub fn area(&mut self, class: &str, from: At, to: At, content: &str) {
        let ((left, top), (right, bottom)) = (from, to);
        let (width, height, content) = (right - left, bottom - top, escaped(content));
        self.write(format_args!(
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"><title>{content}</title></rect>"
        ));
    }

    /// Draws a line through points; None lifts the pen. One between two of them is a line of no
    /// length, which shows as a dot where `stroke-linecap` is round.
    pub fn curve(&mut self, attributes: impl Display, points: impl Iterator<Item = Option<At>>) {
        let mut path = String::new();
        let mut drawn = 0;
        let mut points = points.peekable();
        while let Some(point) = points.next() {
            let Some((x, y)) = point else {
                drawn = 0;
                continue;
            };
            // A string takes it all.
            let _ = write!(path, "{}{x:.1},{y:.1}", if drawn > 0 { 'L' } else { 'M' });
            drawn += 1;
            if drawn == 1 && points.peek().is_none_or(Option::is_none) {
                path.push('Z');
            }
        }
        if !path.is_empty() {
            self.write(format_args!("<path {attributes} d=\"{path}\"/>"));
        }
    }

    /// Writes what a line of this number is.
    pub fn label(&mut self, number: usize, (x, y): At, content: &str) {
        let colour = colour(number);
        self.write(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"22\" height=\"4\" rx=\"2\" fill=\"{colour}\"/>"
        ));
        self.text((x + 30.0, y + 6.0), "", content);
    }

    /// Writes a text that begins there, if its attributes say nothing else.
    pub fn text(&mut self, at: At, attributes: impl Display, content: &str) {
        let ((x, y), escaped) = (at, escaped(content));
        self.write(format_args!("<text {attributes} x=\"{x:.1}\" y=\"{y:.1}\">{escaped}</text>"));
    }

    fn write(&mut self, element: impl Display) {
        // A string takes it all.
        let _ = writeln!(self.0, "{element}");
    }
}

/// Returns a text as content of XML or HTML: what stands between two tags.
#[must_use]
pub fn escaped(content: &str) -> String {
    let mut escaped = String::new();
    for character in content.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            // XML has no way to write these.
            '\u{fffe}' | '\u{ffff}' => escaped.push(char::REPLACEMENT_CHARACTER),
            other if other.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_a_page_says_what_it_shows() {
        let mut picture = Picture::within_page((9.0, 8.0), "a", ["b & c", "d < \"e\""]);
        picture.area("bar", (1.0, 2.0), (4.0, 8.5), "f < g");
        let svg = picture.finish();
        assert!(!svg.contains("<style") && !svg.contains("xmlns"), "{svg}");
        for part in [
            "<svg viewBox=\"0 0 9 8\" role=\"img\" aria-labelledby=\"a-title a-about\">",
            "<title id=\"a-title\">b &amp; c</title>",
            "<desc id=\"a-about\">d &lt; \"e\"</desc>",
            "<rect class=\"bar\" x=\"1.0\" y=\"2.0\" width=\"3.0\" height=\"6.5\">\
             <title>f &lt; g</title></rect>",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
    }

    #[test]
    fn text_is_escaped() {
        let mut picture = Picture::new((10.0, 20.0), ".a{}");
        picture.text((0.0, 0.0), "", "a<b & c\u{1}");
        let svg = picture.finish();
        assert!(svg.contains(">a&lt;b &amp; c\u{fffd}</text>\n</svg>\n"), "{svg}");
        assert!(svg.contains("viewBox=\"0 0 10 20\"") && svg.contains(".a{}</style>"), "{svg}");
    }

    #[test]
    fn a_curve_has_gaps_and_points_that_stand_alone() {
        let mut picture = Picture::new((1.0, 1.0), "");
        let points = [None, Some((0.0, 1.0)), Some((1.0, 2.25)), None, Some((3.0, 4.0))];
        picture.curve("class=\"a\"", points.into_iter());
        picture.curve("class=\"b\"", [None].into_iter());
        let svg = picture.finish();
        assert!(
            svg.contains("<path class=\"a\" d=\"M0.0,1.0L1.0,2.2M3.0,4.0Z\"/>\n</svg>"),
            "{svg}"
        );
    }

    #[test]
    fn colours_come_again_when_there_are_no_more() {
        assert_eq!(colour(0), "#0072b2");
        assert_eq!(colour(MOST_COLOURS + 1), colour(1));
    }
}
