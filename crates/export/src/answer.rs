//! Reading an answer, of which no byte is trusted: it may be of any length, garbage, or late.

use std::io::{ErrorKind, Read};
use std::time::Duration;

use crate::fault::{Fault, Stage};
use crate::request::Answer;

/// Bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Bytes of an answer's text that are read; nobody needs more to know why.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Answers that say there is another one coming.
const INTERIM_MAX: usize = 8;
/// Longest `Retry-After` that is heeded, also of a server that says what is no time: as long as the
/// longest wait of our own, and a try every five minutes harms nobody.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// The header in which `corprof serve` says how many of the profiles were there already.
const REPEATED: &str = "corprof-repeated";

/// Reads an answer, to the end of its text or as much of it as is wanted.
///
/// # Errors
/// Why there is none.
pub fn read(from: &mut impl Read) -> Result<Answer, Fault> {
    let mut bytes = Vec::new();
    for _ in 0..=INTERIM_MAX {
        let end = head_end(from, &mut bytes)?;
        let text = bytes.split_off(end);
        let (mut answer, is_chunked, length) = parse_head(&bytes)?;
        if (100..200).contains(&answer.status) {
            bytes = text;
            continue;
        }
        if (200..300).contains(&answer.status) {
            // Taken: what else they say, nobody asks, and it may not come or not end.
            return Ok(answer);
        }
        answer.text = read_text(from, text, length, is_chunked);
        if is_chunked {
            answer.text = unchunked(&answer.text);
        }
        return Ok(answer);
    }
    Err(Fault::NotHttp)
}

/// Reads the head of an answer alone, byte by byte: what follows is not ours to read. Returns its
/// status.
///
/// # Errors
/// Why there is none.
pub fn read_head(from: &mut impl Read) -> Result<u16, Fault> {
    let mut bytes = Vec::new();
    head_end(&mut ByteWise(from), &mut bytes)?;
    parse_head(&bytes).map(|(answer, _, _)| answer.status)
}

struct ByteWise<'a, R>(&'a mut R);

impl<R: Read> Read for ByteWise<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer.get_mut(..1).unwrap_or_default())
    }
}

/// Reads up to the end of the head; returns where that is.
fn head_end(from: &mut impl Read, bytes: &mut Vec<u8>) -> Result<usize, Fault> {
    let mut buffer = [0; 1024];
    let mut looked = 0_usize;
    loop {
        let begin = looked.saturating_sub(3);
        let fresh = bytes.get(begin..).unwrap_or_default();
        if let Some(at) = fresh.windows(4).position(|four| four == b"\r\n\r\n") {
            return Ok(begin + at + 4);
        }
        if !b"HTTP/1.".starts_with(bytes.get(..7).unwrap_or(bytes)) {
            return Err(Fault::NotHttp);
        }
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(Fault::HeadTooLarge);
        }
        looked = bytes.len();
        match from.read(&mut buffer) {
            Ok(0) => return Err(Fault::Closed(Stage::Answer)),
            Ok(n) => bytes.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Fault::of(Stage::Answer, &error)),
        }
    }
}

/// An answer without its text; whether that is in chunks, and how long it is, if that is said.
fn parse_head(head: &[u8]) -> Result<(Answer, bool, Option<usize>), Fault> {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let status = lines.next().filter(|line| line.starts_with("HTTP/1."));
    let status = status.and_then(|line| line.split(' ').nth(1));
    let status = status.filter(|digits| digits.len() == 3).and_then(|digits| digits.parse().ok());
    let status = status.filter(|status| (100..600).contains(status)).ok_or(Fault::NotHttp)?;
    let mut answer = Answer { status, ..Answer::default() };
    let (mut is_chunked, mut length) = (false, None);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("retry-after") {
            // A date is as good as nothing: the clocks may differ, and waiting grows anyway.
            let seconds = value.parse::<u64>().ok().map(Duration::from_secs);
            answer.retry_after = seconds.map(|time| time.min(RETRY_AFTER_MAX));
        } else if name.eq_ignore_ascii_case(REPEATED) {
            answer.was_there = value.parse::<u64>().is_ok_and(|profiles| profiles > 0);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            is_chunked = value.to_ascii_lowercase().contains("chunked");
        } else if name.eq_ignore_ascii_case("content-length") {
            length = value.parse::<usize>().ok();
        }
    }
    Ok((answer, is_chunked, length))
}

/// What there is of the text. The status is known, so no error matters any more.
fn read_text(
    from: &mut impl Read,
    mut text: Vec<u8>,
    length: Option<usize>,
    is_chunked: bool,
) -> Vec<u8> {
    let wanted = length.filter(|_| !is_chunked).unwrap_or(usize::MAX).min(TEXT_BYTES_MAX);
    let mut buffer = [0; 1024];
    // Who keeps the connection in spite of us ends chunks with an empty one.
    while text.len() < wanted && !(is_chunked && text.ends_with(b"0\r\n\r\n")) {
        match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(n) => text.extend_from_slice(buffer.get(..n).unwrap_or_default()),
        }
    }
    text.truncate(wanted);
    text
}

/// The text without the marks of its chunks.
fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let (size, after) = rest.split_at(end);
        let size = std::str::from_utf8(size).unwrap_or_default();
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        let chunk = after.get(2..).unwrap_or_default();
        text.extend_from_slice(chunk.get(..size).unwrap_or(chunk));
        rest = chunk.get(size.saturating_add(2)..).unwrap_or_default();
        if size == 0 {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Comes byte by byte, as on a slow line.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let n = self.0.len().min(1);
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn both(bytes: &[u8]) -> Result<Answer, Fault> {
        let at_once = read(&mut { bytes });
        assert_eq!(read(&mut Slow(bytes)), at_once);
        at_once
    }

    #[test]
    fn answers_are_read() {
        for (bytes, status, seconds, text) in [
            ("HTTP/1.1 200 OK\r\n\r\n", 200, None, ""),
            ("HTTP/1.0 429 Slow\r\nretry-AFTER: 7\r\n\r\nlater", 429, Some(7), "later"),
            ("HTTP/1.1 500 \r\nContent-Length: 2\r\n\r\nabcdef", 500, None, "ab"),
            ("HTTP/1.1 503\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n\r\n", 503, None, ""),
            ("HTTP/1.1 503 x\r\nRetry-After: 301\r\n\r\n", 503, Some(300), ""),
            ("HTTP/1.1 503 x\r\nRetry-After: 18446744073709551615\r\n\r\n", 503, Some(300), ""),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", 204, None, ""),
            (
                "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n\
                 3\r\nabc\r\n2;x\r\nde\r\n0\r\n",
                400,
                None,
                "abcde",
            ),
            (
                "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\nab",
                400,
                None,
                "ab",
            ),
        ] {
            let answer = both(bytes.as_bytes()).expect(bytes);
            let seconds = seconds.map(Duration::from_secs);
            assert_eq!((answer.status, answer.retry_after), (status, seconds), "{bytes}");
            assert_eq!(String::from_utf8_lossy(&answer.text), text);
        }
    }

    #[test]
    fn what_is_none_is_said() {
        for (bytes, fault) in [
            ("", Fault::Closed(Stage::Answer)),
            ("HTTP/1.1 200 OK\r\n", Fault::Closed(Stage::Answer)),
            ("SSH-2.0-OpenSSH\r\n", Fault::NotHttp),
            ("HTTP/2 200\r\n\r\n", Fault::NotHttp),
            ("HTTP/1.1 20 OK\r\n\r\n", Fault::NotHttp),
            ("HTTP/1.1 999 OK\r\n\r\n", Fault::NotHttp),
            ("HTTP/1.1 \r\n\r\n", Fault::NotHttp),
        ] {
            assert_eq!(both(bytes.as_bytes()), Err(fault), "{bytes}");
        }
        let interim = "HTTP/1.1 102 Wait\r\n\r\n".repeat(INTERIM_MAX + 1);
        assert_eq!(both(interim.as_bytes()), Err(Fault::NotHttp));
    }

    #[test]
    fn what_was_there_already_is_known() {
        for (header, was_there) in [
            ("Corprof-Repeated: 1", true),
            ("corprof-repeated:12", true),
            ("Corprof-Repeated: 0", false),
            ("Corprof-Repeated: yes", false),
            ("Repeated: 1", false),
        ] {
            let answer = both(format!("HTTP/1.1 200 OK\r\n{header}\r\n\r\n").as_bytes());
            assert_eq!(answer.map(|answer| answer.was_there), Ok(was_there), "{header}");
        }
    }

    /// Comes, and then nothing any more: a read too many fails the test.
    struct Silent<'a>(&'a [u8]);

    impl Read for Silent<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            assert!(!self.0.is_empty(), "waits for more");
            self.0.read(buffer)
        }
    }

    #[test]
    fn who_keeps_the_connection_is_not_waited_for() {
        for (bytes, text) in [
            ("HTTP/1.1 200 OK\r\n\r\n", ""),
            ("HTTP/1.1 202 OK\r\nContent-Length: 50\r\n\r\nabc", ""),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n", ""),
            ("HTTP/1.1 500 x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "abc"),
            ("HTTP/1.1 500 x\r\nContent-Length: 3\r\n\r\nabc", "abc"),
        ] {
            let answer = read(&mut Silent(bytes.as_bytes())).expect(bytes);
            assert_eq!(String::from_utf8_lossy(&answer.text), text);
        }
    }

    #[test]
    fn an_answer_without_end_is_not_read_to_its_end() {
        let head = b"HTTP/1.1 200 OK\r\nX: ".chain(std::io::repeat(b'y'));
        assert_eq!(read(&mut { head }), Err(Fault::HeadTooLarge));
        let text = b"HTTP/1.1 400 No\r\n\r\n".chain(std::io::repeat(b'z'));
        assert_eq!(read(&mut { text }).map(|answer| answer.text.len()), Ok(TEXT_BYTES_MAX));
    }
}
