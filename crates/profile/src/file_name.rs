//! The names of profile files: `<service>_<pid>_<seq>.pb.gz`.

/// Bytes of the service's name in a file name; the rest of the 255 that file systems allow is left
/// for the numbers and for a writer's temporary suffix.
const SERVICE_BYTES: usize = 100;

/// What a profile file's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileName<'a> {
    /// The service, with unusual characters replaced by `-`.
    pub service: &'a str,
    /// The process id.
    pub pid: u32,
    /// The number of the period in that process; in an empty folder from 0.
    pub seq: u64,
}

impl<'a> FileName<'a> {
    /// Reads a file name (without its folder); `None` if it isn't one of ours.
    #[must_use]
    pub fn parse(name: &'a str) -> Option<Self> {
        let (rest, seq) = name.strip_suffix(".pb.gz")?.rsplit_once('_')?;
        let (service, pid) = rest.rsplit_once('_')?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if service.is_empty() || !digits(pid) || !digits(seq) {
            return None;
        }
        Some(Self { service, pid: pid.parse().ok()?, seq: seq.parse().ok()? })
    }
}

/// The file's name for a period; the number has four digits at least, so that lists sort.
#[must_use]
pub fn file_name(service: &str, pid: u32, seq: u64) -> String {
    format!("{}_{pid}_{seq:04}.pb.gz", service_part(service))
}

/// A service's name made fit for a file name: letters, digits, `.`, `-` and `_` stay; the rest,
/// and a leading dot that would hide the file, become `-`.
#[must_use]
pub fn service_part(service: &str) -> String {
    let mut part = String::new();
    for letter in service.chars() {
        let fits = letter.is_alphanumeric() || matches!(letter, '-' | '_');
        let letter = if fits || (letter == '.' && !part.is_empty()) { letter } else { '-' };
        if part.len().saturating_add(letter.len_utf8()) > SERVICE_BYTES {
            break;
        }
        part.push(letter);
    }
    if part.is_empty() { "unknown".to_owned() } else { part }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back() {
        let name = file_name("orders_api", 4242, 7);
        assert_eq!(name, "orders_api_4242_0007.pb.gz");
        let parsed = FileName::parse(&name).unwrap();
        assert_eq!((parsed.service, parsed.pid, parsed.seq), ("orders_api", 4242, 7));
    }

    #[test]
    fn unusual_services_stay_in_their_folder() {
        for service in ["../../etc/passwd", "a/b", "", ".hidden", "a b\n", &"x".repeat(900)] {
            let name = file_name(service, 1, 123_456);
            assert!(!name.contains('/') && !name.starts_with('.') && name.len() < 200, "{name}");
            assert!(FileName::parse(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn other_files_are_not_ours() {
        for name in
            ["", "a.pb.gz", "a_1.pb.gz", "_1_2.pb.gz", "a_1_2.pb", "a_x_2.pb.gz", "a_1_+2.pb.gz"]
        {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }
}
