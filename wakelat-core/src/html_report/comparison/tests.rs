use serde_json::Value;

use super::*;
use crate::compare::{
    comparison::compare,
    criteria::Criteria,
    run::{Conditions, GroupName},
};

/// A run of ten seconds whose latencies are `factor` times those of others.
fn run(name: &str, group: &GroupName, factor: u64) -> ComparedRun {
    let conditions = Conditions { kernel: "6.1".to_owned(), from: "waking".to_owned(), ..Conditions::default() };
    let mut run = ComparedRun { name: name.to_owned(), conditions, has_causes: true, ..ComparedRun::default() };
    for _ in 0..10 {
        let number = run.begin_interval(1_000_000_000);
        let latencies = LatencyCounts::of_ascending((1..=200).map(|rank| (rank * 1_000 * factor, 1)).collect());
        run.add_waits(number, group, &latencies, (u128::from(20_100_000 * factor), 200_000 * factor));
    }
    run.groups.get_mut(group).unwrap().causes = [("behind hog".to_owned(), u128::from(factor * 1_000_000))].into();
    run
}

/// The page of a comparison of `runs` an arm, whose new one has latencies of twice the length.
fn page_of(group: &GroupName, runs: usize) -> (String, Value) {
    let arm = |name: &str, factor| -> Vec<ComparedRun> {
        (0..runs).map(|at| run(&format!("{name}-{at}.wakelat"), group, factor)).collect()
    };
    let arms = [arm("base", 1), arm("new", 2)];
    let comparison = compare(&arms[0], &arms[1], &Criteria::default()).unwrap();
    let source = |run: &ComparedRun| HtmlRun::new(run, HtmlSource::of_report(run.name.clone(), &run.conditions.kernel));
    let mut html = Vec::new();
    write(&comparison, &arms.map(|arm| arm.iter().map(source).collect()), &mut html).unwrap();
    let html = String::from_utf8(html).unwrap();
    let (_, rest) = html.split_once("id=\"data\">").unwrap();
    let data = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    (html, data)
}

fn of_wakeups() -> GroupName {
    GroupName { class: "wakeup".to_owned(), key: Vec::new() }
}

#[test]
fn the_figures_of_a_page() {
    let (_, mut data) = page_of(&of_wakeups(), 6);
    data["page"]["version"] = "VERSION".into();
    insta::assert_snapshot!(serde_json::to_string_pretty(&data["page"]).unwrap());
}

#[test]
fn a_distribution_has_every_wait_of_both_arms() {
    let (_, data) = page_of(&of_wakeups(), 6);
    let bins = data["page"]["groups"][0]["bins"].as_array().unwrap();
    let waits = |arm: usize| bins.iter().map(|bin| bin[arm].as_u64().unwrap()).sum::<u64>();
    let group = &data["diff"]["groups"][0];
    assert_eq!([waits(1), waits(2)], [12_000, 12_000]);
    assert_eq!(group["waits"], serde_json::json!([12_000, 12_000]));
    // Twice the latency is four bins further.
    let first = |arm: usize| bins.iter().find(|bin| bin[arm] != 0).unwrap()[0].as_u64().unwrap();
    assert_eq!(first(2), first(1) + 4);
}

#[test]
fn one_run_an_arm_is_not_called_worse() {
    let (_, data) = page_of(&of_wakeups(), 1);
    let page = &data["page"];
    assert_eq!(page["outcome"], "inconclusive");
    assert!(page["verdict"].as_str().unwrap().starts_with("inconclusive: one run per arm"), "{page}");
}

#[test]
fn a_hostile_name_stays_text() {
    let name = "</script><b>{script}";
    let group = GroupName { key: vec![("comm".to_owned(), name.to_owned())], ..of_wakeups() };
    let (html, data) = page_of(&group, 6);
    assert_eq!(html.matches("</script>").count(), 2);
    assert!(!html.contains("<b>"));
    assert_eq!(data["page"]["groups"][1]["name"], format!("wakeup, comm {name}"));
}

#[test]
fn a_page_loads_nothing() {
    let (html, _) = page_of(&of_wakeups(), 6);
    let addresses: Vec<_> = html.match_indices("://").map(|(at, _)| &html[at - 4..at + 20]).collect();
    // The name of a namespace, which is not loaded.
    assert_eq!(addresses, ["http://www.w3.org/2000/s"]);
}
