//! Content negotiation by the `Accept` header of HTTP (RFC 9110, section 12.5.1).

/// The index of the media type in `offered` that the header prefers; of several equally preferred ones, the first. `None` if
/// the header accepts none of them. Parameters other than `q` are ignored. An empty header accepts everything.
pub fn preferred(accept: &str, offered: &[&str]) -> Option<usize> {
    if accept.trim().is_empty() {
        return Some(0);
    }
    let ranges: Vec<(&str, u16)> = accept.split(',').filter_map(range).collect();
    let quality = |offer: &str| {
        // The most specific range decides.
        let by_specificity = |(range, quality): &(&str, u16)| {
            let (kind, _) = offer.split_once('/').unwrap_or((offer, ""));
            let specificity = match range.split_once('/') {
                _ if range.eq_ignore_ascii_case(offer) => 3,
                Some((of, "*")) if of.eq_ignore_ascii_case(kind) => 2,
                Some(("*", "*")) => 1,
                _ => return None,
            };
            Some((specificity, *quality))
        };
        ranges.iter().filter_map(by_specificity).max().map_or(0, |(_, quality)| quality)
    };
    let qualities: Vec<u16> = offered.iter().map(|offer| quality(offer)).collect();
    let best = qualities.iter().copied().max().filter(|best| *best > 0)?;
    qualities.iter().position(|quality| *quality == best)
}

/// Whether the header names one of these media types, with any quality.
pub fn names(accept: &str, media_types: &[&str]) -> bool {
    let mut named = accept.split(',').filter_map(range).map(|(range, _)| range);
    named.any(|named| media_types.iter().any(|media_type| named.eq_ignore_ascii_case(media_type)))
}

/// A media range and its quality in thousandths; `None` if it is malformed.
fn range(text: &str) -> Option<(&str, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let range = parts.next().filter(|range| !range.is_empty())?;
    let mut quality = 1_000;
    for part in parts {
        if let Some((name, value)) = part.split_once('=')
            && name.trim().eq_ignore_ascii_case("q")
        {
            let value: f32 = value.trim().parse().ok().filter(|value| (0.0..=1.0).contains(value))?;
            quality = (value * 1_000.0) as u16;
        }
    }
    Some((range, quality))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERED: [&str; 2] = ["application/openmetrics-text", "text/plain"];

    #[test]
    fn the_scraper_of_prometheus_gets_openmetrics() {
        let accept = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;q=0.5,*/*;q=0.1";
        assert_eq!(preferred(accept, &OFFERED), Some(0));
    }

    #[test]
    fn quality_and_specificity_decide() {
        assert_eq!(preferred("text/plain, application/openmetrics-text;q=0.5", &OFFERED), Some(1));
        assert_eq!(preferred("text/*", &OFFERED), Some(1));
        assert_eq!(preferred("*/*;q=0.9, application/openmetrics-text;q=0.1", &OFFERED), Some(1));
        assert_eq!(preferred("*/*", &OFFERED), Some(0));
        assert_eq!(preferred("", &OFFERED), Some(0));
        assert_eq!(preferred("TEXT/PLAIN; Q=1", &OFFERED), Some(1));
    }

    #[test]
    fn a_range_with_an_asterisk_names_no_type() {
        for accept in ["text/plain", "image/png, TEXT/Plain;q=0", "application/openmetrics-text; version=1.0.0"] {
            assert!(names(accept, &OFFERED), "{accept}");
        }
        for accept in ["", "*/*", "text/*", "text/html, */*;q=0.8", "text/plain2"] {
            assert!(!names(accept, &OFFERED), "{accept}");
        }
    }

    #[test]
    fn what_is_not_offered_or_malformed_is_not_accepted() {
        for accept in ["image/png", "text/plain;q=0", "text/plain;q=2", ";", "/", "text", ",,,"] {
            assert_eq!(preferred(accept, &OFFERED), None, "{accept}");
        }
    }
}
