//! A picture that grows downwards: text, bars and lines, with names escaped.

use std::io::{self, Write as _};

use quick_xml::{
    Writer,
    events::{BytesEnd, BytesStart, BytesText, Event},
};

/// The width of all pictures: px.
pub const WIDTH: f64 = 880.0;

/// Free space at each side: px.
pub const MARGIN: f64 = 20.0;

/// Number of colours. What is beyond has the last one.
pub const COLORS: usize = 8;

/// The colours of `page.css`.
pub const STYLE: &str = "\
text { font: 13px system-ui, sans-serif; fill: #1b1f24 }
.title { font-size: 16px; font-weight: 600 } .head { font-weight: 600 } .dim { fill: #5b6570 } .mark { fill: #0b62c4 }
.ground { fill: #ffffff; stroke: #d5dae0 } line { stroke: #d5dae0 } line.mark { stroke: #0b62c4; stroke-dasharray: 3 3 }
.c0 { fill: #0072b2 } .c1 { fill: #e69f00 } .c2 { fill: #009e73 } .c3 { fill: #cc79a7 }
.c4 { fill: #56b4e9 } .c5 { fill: #d55e00 } .c6 { fill: #8c8c00 } .c7 { fill: #7a7f87 }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e8ec } .dim { fill: #9aa5b1 } .mark { fill: #6db3ff }
  .ground { fill: #14171a; stroke: #343b43 } line { stroke: #343b43 } line.mark { stroke: #6db3ff }
  .c0 { fill: #4aa3df } .c3 { fill: #dd9cc0 } .c4 { fill: #b5e2fa } .c6 { fill: #c9c948 } .c7 { fill: #9aa0a8 }
}";

/// Where a text is attached to its place.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture.
pub struct Picture {
    shapes: Writer<Vec<u8>>,
    /// How far down the picture has grown: px.
    pub y: f64,
}

impl Picture {
    /// A picture that begins with its title.
    pub fn new(title: &str) -> io::Result<Self> {
        let mut picture = Self { shapes: Writer::new(Vec::new()), y: 34.0 };
        picture.text((MARGIN, picture.y), Anchor::Start, "title", title)?;
        Ok(picture)
    }

    /// Adds a line of text, whose baseline is at `y`.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) -> io::Result<()> {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let mut start = BytesStart::new("text");
        for (name, value) in [("x", &*number(x)), ("y", &*number(y)), ("text-anchor", anchor), ("class", class)] {
            if !value.is_empty() && value != "start" {
                start.push_attribute((name, value));
            }
        }
        self.element(start, Some(text))
    }

    /// Adds a bar with its meaning in words, and in attributes.
    pub fn bar(
        &mut self,
        [x, y, width, height]: [f64; 4],
        class: &str,
        meaning: &str,
        attributes: &[(&str, &str)],
    ) -> io::Result<()> {
        let mut start = BytesStart::new("rect");
        for (name, value) in [("x", x), ("y", y), ("width", width), ("height", height)] {
            start.push_attribute((name, &*number(value)));
        }
        start.push_attribute(("class", class));
        for (name, value) in attributes {
            start.push_attribute((*name, &*valid(value)));
        }
        if meaning.is_empty() {
            return self.shapes.write_event(Event::Empty(start));
        }
        self.shapes.write_event(Event::Start(start))?;
        self.element(BytesStart::new("title"), Some(meaning))?;
        self.shapes.write_event(Event::End(BytesEnd::new("rect")))
    }

    /// Adds a line.
    pub fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], class: &str) -> io::Result<()> {
        let mut start = BytesStart::new("line");
        for (name, value) in [("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)] {
            start.push_attribute((name, &*number(value)));
        }
        if !class.is_empty() {
            start.push_attribute(("class", class));
        }
        self.shapes.write_event(Event::Empty(start))
    }

    /// Adds a paragraph below what there is, in lines of about the picture's width.
    pub fn paragraph(&mut self, class: &str, text: &str) -> io::Result<()> {
        /// Characters that fit into a line in any usual font.
        const COLUMNS: usize = 118;
        for line in textwrap::wrap(text, COLUMNS) {
            self.y += 19.0;
            self.text((MARGIN, self.y), Anchor::Start, class, &line)?;
        }
        Ok(())
    }

    /// Adds what each colour stands for.
    pub fn legend(&mut self, names: &[String]) -> io::Result<()> {
        /// The width of a character on average: px.
        const CHARACTER: f64 = 7.2;
        let mut x = MARGIN;
        self.y += 24.0;
        for (at, name) in names.iter().enumerate() {
            let width = 34.0 + CHARACTER * name.chars().count() as f64;
            if x > MARGIN && x + width > WIDTH {
                (x, self.y) = (MARGIN, self.y + 20.0);
            }
            self.bar([x, self.y - 10.0, 11.0, 11.0], &color(at), "", &[])?;
            self.text((x + 17.0, self.y), Anchor::Start, "", name)?;
            x += width;
        }
        Ok(())
    }

    fn element(&mut self, start: BytesStart, text: Option<&str>) -> io::Result<()> {
        let end = start.to_end().into_owned();
        self.shapes.write_event(Event::Start(start.borrow()))?;
        if let Some(text) = text {
            self.shapes.write_event(Event::Text(BytesText::new(&valid(text))))?;
        }
        self.shapes.write_event(Event::End(end))?;
        self.shapes.get_mut().write_all(b"\n")
    }

    /// The picture as text, with what it shows in words.
    pub fn finish(self, title: &str, description: &str) -> io::Result<String> {
        let height = (self.y + MARGIN).ceil();
        let shapes = self.shapes.into_inner();
        let mut frame = Self { shapes: Writer::new(Vec::new()), y: 0.0 };
        let mut root = BytesStart::new("svg");
        let (width, tall) = (number(WIDTH), number(height));
        root.push_attribute(("xmlns", "http://www.w3.org/2000/svg"));
        root.push_attribute(("viewBox", &*format!("0 0 {width} {tall}")));
        root.push_attribute(("width", &*width));
        root.push_attribute(("height", &*tall));
        root.push_attribute(("role", "img"));
        frame.shapes.write_event(Event::Start(root))?;
        frame.element(BytesStart::new("title"), Some(title))?;
        frame.element(BytesStart::new("desc"), Some(description))?;
        frame.element(BytesStart::new("style"), Some(STYLE))?;
        frame.bar([0.5, 0.5, WIDTH - 1.0, height - 1.0], "ground", "", &[])?;
        let mut all = frame.shapes.into_inner();
        all.extend_from_slice(b"\n");
        all.extend_from_slice(&shapes);
        all.extend_from_slice(b"</svg>\n");
        Ok(String::from_utf8_lossy(&all).into_owned())
    }
}

/// The class of a colour.
pub fn color(index: usize) -> String {
    format!("c{}", index.min(COLORS - 1))
}

/// The text cut to a number of characters.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// A length with a tenth of a px, in as few characters as possible.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The text without characters that XML does not have.
fn valid(text: &str) -> String {
    let is_missing = |c: char| (c < ' ' && !"\t\n\r".contains(c)) || ('\u{fffe}'..='\u{ffff}').contains(&c);
    text.chars().map(|c| if is_missing(c) { '\u{fffd}' } else { c }).collect()
}
