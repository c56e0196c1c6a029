//! A comparison as JUnit XML: a test case for each metric that decides and for each limit.

use super::{
    super::comparison::{ArmComparison, ArmVerdict},
    labels,
};

/// Text as XML: characters that XML does not have are replaced.
fn escaped(text: &str) -> String {
    let one = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\n' | '\t' => " ".to_owned(),
        c if c < ' ' || ('\u{fffe}'..='\u{ffff}').contains(&c) => '\u{fffd}'.to_string(),
        c => c.to_string(),
    };
    text.chars().map(one).collect()
}

/// The comparison as JUnit XML: a case that is worse is a failure, and one that is inconclusive is skipped.
pub fn junit(comparison: &ArmComparison) -> String {
    let mut cases = Vec::new();
    for group in &comparison.groups {
        for metric in &group.metrics {
            if let Some(verdict) = metric.verdict {
                let sentence = labels::metric_sentence(group, metric, true);
                cases.push((group.name.to_string(), metric.metric.name(), verdict, sentence));
            }
        }
        for limit in &group.limits {
            let sentence = labels::limit_sentence(group, limit, true);
            cases.push((group.name.to_string(), labels::limit(limit, true), limit.verdict, sentence));
        }
    }
    let is_only_within = comparison.within_runs.is_some() && !comparison.criteria.accepts_single_runs;
    let verdict = |verdict: ArmVerdict| if is_only_within { ArmVerdict::Inconclusive } else { verdict };
    let count = |of: ArmVerdict| cases.iter().filter(|case| verdict(case.2) == of).count();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"wakelat\" tests=\"{}\" failures=\"{}\" \
         errors=\"0\" skipped=\"{}\">\n",
        cases.len(),
        count(ArmVerdict::Worse),
        count(ArmVerdict::Inconclusive)
    );
    for (group, name, of, sentence) in &cases {
        let [group, name, sentence] = [group, name, sentence].map(|text| escaped(text));
        let result = match verdict(*of) {
            ArmVerdict::NotWorse => String::new(),
            ArmVerdict::Inconclusive => format!("<skipped message=\"inconclusive: {sentence}\"/>"),
            ArmVerdict::Worse => format!("<failure type=\"worse\" message=\"{sentence}\"/>"),
        };
        out += &format!("    <testcase classname=\"wakelat.{group}\" name=\"{name}\">{result}</testcase>\n");
    }
    out + "  </testsuite>\n</testsuites>\n"
}
