//! The causes of waits: a bar of the components of each class and group.

use std::io;

use super::picture::{Anchor, COLORS, MARGIN, Picture, WIDTH, color, cut};
use crate::{
    render::{self, Style, units},
    timeline::component::Component,
    why::{
        Summary,
        groups::GroupBreakdown,
        render::{finding, labels},
        sums::BreakdownSum,
    },
};

/// Maximum number of findings in words, and of groups.
const FINDINGS: usize = 3;
const GROUPS: usize = 16;

/// The begin and the end of the bars of groups: px.
const BARS: [f64; 2] = [290.0, WIDTH - 90.0];

const TITLE: &str = "What tasks waited for";

/// The causes of a window: the largest findings, and the components of the waits of each class and of the largest groups.
/// All bars have one length, and the parts of a bar are shares of the waiting time.
///
/// # Errors
/// None: it writes to memory.
pub fn causes(summary: &Summary) -> io::Result<String> {
    let style = Style { unicode: true, ..Style::default() };
    let all = summary.all();
    let title = format!("{TITLE}: {}, {} in total", units::counted(all.waits, "wait"), units::duration(all.ns, true));
    let mut picture = Picture::new(&title)?;
    let mut described = Vec::new();
    for found in summary.findings.iter().take(FINDINGS) {
        let evidence = finding::evidence(found, &summary.cgroups, &style);
        picture.y += 5.0;
        picture.paragraph("", &format!("▸ {evidence}"))?;
        picture.paragraph("dim", &format!("remedy: {}", finding::remedy(found)))?;
        described.push(evidence);
    }
    if all.waits == 0 {
        picture.paragraph("dim", "No wait was measured.")?;
    }
    let mut order: Vec<Component> = Component::ALL.into_iter().filter(|of| all.component(*of).ns > 0).collect();
    order.sort_by_key(|of| std::cmp::Reverse(all.component(*of).ns));
    for class in &summary.classes {
        let name = render::labels::figure(class.class, summary.from);
        let [waits, sum] = [units::counted(class.sums.waits, "wait"), units::duration(class.sums.ns, true)];
        let longest = units::duration(class.sums.max_ns, true);
        let head = format!("{name} · {waits} · {sum} in total · longest {longest}");
        picture.y += 10.0;
        picture.paragraph("head", &head)?;
        draw(class, name, "class", &order, [MARGIN, WIDTH - MARGIN, picture.y + 8.0, 20.0], &mut picture)?;
        picture.y += 30.0;
    }
    if !summary.groups.is_empty() {
        picture.y += 6.0;
    }
    for group in summary.groups.iter().take(GROUPS) {
        let class = group.class.name();
        let name =
            render::labels::key(&group.key, &style).map_or_else(|| class.to_owned(), |key| format!("{key}, {class}"));
        picture.y += 20.0;
        picture.text((MARGIN, picture.y), Anchor::Start, "", &cut(&name, 36))?;
        draw(group, &name, "group", &order, [BARS[0], BARS[1], picture.y - 12.0, 15.0], &mut picture)?;
        let sum = units::duration(group.sums.ns, true);
        picture.text((WIDTH - MARGIN, picture.y), Anchor::End, "", &sum)?;
    }
    if summary.groups.len() > GROUPS {
        let others = (summary.groups.len() - GROUPS) as u64;
        picture.paragraph("dim", &format!("{} with less waiting time not drawn", units::counted(others, "group")))?;
    }
    picture.legend(&legend(&order, &all))?;
    picture.finish(&title, &described.join("; "))
}

/// What the colours stand for, with their shares of all waiting time. The last one has the rest.
fn legend(order: &[Component], all: &BreakdownSum) -> Vec<String> {
    let share = |ns: u128| units::share_of(ns, all.ns);
    let own = if order.len() > COLORS { COLORS - 1 } else { order.len() };
    let mut names: Vec<String> =
        order[..own].iter().map(|of| format!("{} {}", labels::component(*of), share(all.component(*of).ns))).collect();
    if order.len() > own {
        let rest = order[own..].iter().map(|of| all.component(*of).ns).sum();
        names.push(format!("{} others {}", order.len() - own, share(rest)));
    }
    names
}

fn draw(
    group: &GroupBreakdown,
    name: &str,
    kind: &str,
    order: &[Component],
    [left, right, y, height]: [f64; 4],
    picture: &mut Picture,
) -> io::Result<()> {
    let mut before = 0;
    for (at, component) in order.iter().enumerate() {
        let ns = group.sums.component(*component).ns;
        if ns == 0 {
            continue;
        }
        let x = |ns: u128| left + (right - left) * ns as f64 / group.sums.ns.max(1) as f64;
        let share = units::share_of(ns, group.sums.ns);
        let meaning = format!("{name}: {} {}, {share}", labels::component(*component), units::duration(ns, true));
        let ns_text = ns.to_string();
        let attributes = [
            ("data-of", kind),
            ("data-class", group.class.name()),
            ("data-component", component.name()),
            ("data-ns", &ns_text),
        ];
        picture.bar([x(before), y, x(ns + before) - x(before), height], &color(at), &meaning, &attributes)?;
        before += ns;
    }
    Ok(())
}
