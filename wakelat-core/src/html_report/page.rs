//! What all pages share: the frame, the style, the helpers of their scripts, and how figures are put into them.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

const FRAME: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const HELPERS: &str = include_str!("page.js");

/// A kind of page. None of its text comes from a measurement.
pub struct HtmlPage {
    /// The title of the window.
    pub title: &'static str,
    /// The question that the page answers.
    pub heading: &'static str,
    /// The ID and the heading of each section.
    pub sections: &'static [(&'static str, &'static str)],
    /// The script that fills the sections, with the helpers of `page.js` in scope.
    pub script: &'static str,
}

impl HtmlPage {
    /// Writes the page with `data`, a JSON document.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(&self, data: &str, out: &mut dyn Write) -> io::Result<()> {
        let (mut nav, mut sections, mut skip) = (String::new(), String::new(), String::new());
        for (at, (id, heading)) in self.sections.iter().enumerate() {
            if at == 0 {
                let heading = heading.to_lowercase();
                skip = format!("<a class=\"skip\" href=\"#{id}\">Skip to the {heading}</a>");
            }
            let _ = writeln!(nav, "<a href=\"#{id}\">{heading}</a>");
            let _ = writeln!(sections, "<section id=\"{id}\"><h2>{heading}</h2></section>");
        }
        // No part of a string may end the element that contains it.
        let data = data.replace('<', "\\u003c");
        let parts = [
            ("{title}", self.title),
            ("{style}", STYLE),
            ("{skip}", &skip),
            ("{heading}", self.heading),
            ("{nav}", &nav),
            ("{sections}", &sections),
            ("{data}", &data),
            ("{script}", HELPERS),
        ];
        let mut rest = FRAME;
        for (place, text) in parts {
            let (before, after) = rest.split_once(place).unwrap_or((rest, ""));
            out.write_all(before.as_bytes())?;
            out.write_all(text.as_bytes())?;
            rest = after;
        }
        out.write_all(self.script.as_bytes())?;
        out.write_all(rest.as_bytes())
    }
}
