//! docs/why.svg, the picture in the README, against the golden output of `why`: neither can change without the other.

use std::{env, fmt::Write as _, fs};

use crate::support::{read, root};

const GOLDEN: &str = "wakelat-core/src/why/render/snapshots/wakelat_core__why__render__tests__without_details.snap";
const PICTURE: &str = "docs/why.svg";
const PROMPT: &str = "$ wakelat why --comm nginx";

/// Width of a monospace character and height of a line: px.
const CHARACTER: (f64, usize) = (8.4, 20);

/// Colours by the prefix of a line's first word, for light and for dark pages.
const STYLE: &str = "\
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace; fill: #1f2328 }
rect { fill: #f6f8fa; stroke: #d1d9e0 }
.prompt { fill: #59636e } .finding { font-weight: bold } .remedy { fill: #116329 }
.task { fill: #0550ae } .interrupt { fill: #953800 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } rect { fill: #151b23; stroke: #3d444d }
  .prompt { fill: #9198a1 } .remedy { fill: #7ee787 } .task { fill: #79c0ff } .interrupt { fill: #ffa657 }
}";

/// The report as `why` prints it, up to the coverage.
fn report() -> Vec<String> {
    let snapshot = read(GOLDEN);
    let (_, text) = snapshot.splitn(3, "---\n").nth(2).map(|text| ((), text)).expect("a snapshot has a header");
    text.lines().take_while(|line| !line.starts_with("timeline: ")).map(str::to_owned).collect()
}

/// How a line of the report is coloured.
fn class(line: &str) -> Option<&'static str> {
    let words = line.trim_start();
    match words.split_once([' ', '/']).map_or(words, |(first, _)| first) {
        "$" => Some("prompt"),
        "▸" => Some("finding"),
        "remedy:" => Some("remedy"),
        "same" | "stress-ng-cpu" => Some("task"),
        "softirqs" | "softirq" | "interrupts" | "IRQ" => Some("interrupt"),
        _ => None,
    }
}

fn svg(lines: &[String]) -> String {
    let (character, height) = CHARACTER;
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let (width, all) = ((columns as f64 * character) as usize + 2 * height, (lines.len() + 2) * height);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {all}\" width=\"{width}\" height=\"{all}\" \
         role=\"img\">\n<style>\n{STYLE}\n</style>\n<rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n",
        width - 1,
        all - 1
    );
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let text = line.replace('&', "&amp;").replace('<', "&lt;");
        let class = class(line).map(|class| format!(" class=\"{class}\"")).unwrap_or_default();
        let y = (at + 2) * height;
        // Without a length of its own, a font without block elements would tear the bars apart from the columns.
        let length = (line.chars().count() as f64 * character).round();
        writeln!(
            svg,
            "<text x=\"{height}\" y=\"{y}\" textLength=\"{length}\" xml:space=\"preserve\"{class}>{text}</text>"
        )
        .expect("a string takes everything");
    }
    svg + "</svg>\n"
}

/// With `WAKELAT_ACCEPT_PICTURE` set, the test writes the picture.
#[test]
fn the_picture_shows_the_golden_report() {
    let lines: Vec<String> = std::iter::once(PROMPT.to_owned()).chain(report()).collect();
    let drawn = svg(&lines);
    if env::var_os("WAKELAT_ACCEPT_PICTURE").is_some() {
        fs::write(root().join(PICTURE), &drawn).expect("the picture can be written");
    }
    assert!(read(PICTURE) == drawn, "{PICTURE} is not the golden report; set WAKELAT_ACCEPT_PICTURE to write it");
}

#[test]
fn the_alternative_text_names_what_the_picture_shows() {
    let readme = read("README.md");
    let (_, rest) = readme.split_once("![").expect("the README has a picture");
    let (text, _) = rest.split_once("](docs/why.svg)").expect("the picture is the report of why");
    let lines = report().join("\n");
    for word in ["99.2 %", "nginx", "stress-ng-cpu"] {
        assert!(text.contains(word) && lines.contains(word), "{word}");
    }
}
