//! Lists of names and values as the ecosystems write them.

/// `name:value,name:value`, also with blanks between, as `DD_TAGS` and `PYROSCOPE_LABELS` have it.
/// What has no name or no value is left out.
#[must_use]
pub fn tags(text: &str) -> Vec<(String, String)> {
    // With commas there may be blanks in values; without, they are what separates.
    let separators: &[char] = if text.contains(',') { &[','] } else { &[' '] };
    let pairs = text.split(separators).filter_map(|pair| pair.split_once(':'));
    trimmed(pairs).collect()
}

/// `name=value,name=value` with percent-encoded values, as `OTEL_RESOURCE_ATTRIBUTES` and
/// `OTEL_EXPORTER_OTLP_HEADERS` have it.
#[must_use]
pub fn attributes(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    trimmed(pairs).map(|(name, value)| (name, decoded(&value))).collect()
}

fn trimmed<'a>(
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
) -> impl Iterator<Item = (String, String)> {
    pairs
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .filter(|(name, value)| !name.is_empty() && !value.is_empty())
}

/// Without percent-encoding; what is not one stays as it is.
#[must_use]
pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let byte = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pairs: &[(String, String)]) -> String {
        pairs.iter().map(|(name, value)| format!("{name}|{value};")).collect()
    }

    #[test]
    fn tags_are_read_as_they_are_written() {
        for (text, expected) in [
            ("", ""),
            ("a:b", "a|b;"),
            ("a:b,c:d e", "a|b;c|d e;"),
            ("a:b c:d", "a|b;c|d;"),
            (" a : b , :x, y:, z", "a|b;"),
            ("url:http://x:1", "url|http://x:1;"),
        ] {
            assert_eq!(joined(&tags(text)), expected, "{text:?}");
        }
    }

    #[test]
    fn attributes_are_decoded() {
        for (text, expected) in [
            ("", ""),
            ("service.name=shop,k=a%20b%2Cc", "service.name|shop;k|a b,c;"),
            ("a=100%,b=%zz,c=%4", "a|100%;b|%zz;c|%4;"),
            ("Authorization=Basic%20eA==", "Authorization|Basic eA==;"),
            ("=x,y=", ""),
        ] {
            assert_eq!(joined(&attributes(text)), expected, "{text:?}");
        }
    }
}
