//! Makes lines of what a serial console says, whatever it says: pieces of lines, CRLF,
//! bytes that are no UTF-8, lines without end.

/// A line longer than this is cut: a guest gone wild must not take the host's memory.
const LONGEST: usize = 16 << 10;

/// Collects bytes into lines.
#[derive(Default)]
pub struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Takes the next bytes and returns the lines they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend(piece);
            if piece.ends_with(b"\n") || self.partial.len() > LONGEST {
                lines.extend(self.finish());
            }
        }
        lines
    }

    /// What has come of a line that has not ended.
    pub fn finish(&mut self) -> Option<String> {
        if self.partial.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.partial);
        let text = String::from_utf8_lossy(&bytes);
        let line = text
            .trim_end_matches(['\r', '\n'])
            .trim_start_matches(['\r', '\0']);
        Some(line.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"on"), Vec::<String>::new());
        assert_eq!(lines.push(b"e\r"), Vec::<String>::new());
        assert_eq!(lines.push(b"\ntwo\n\nthr"), ["one", "two", ""]);
        assert_eq!(lines.finish().as_deref(), Some("thr"));
        assert_eq!(lines.finish(), None);
    }

    #[test]
    fn bytes_that_are_no_text_do_not_stop_the_reading() {
        let mut lines = Lines::default();
        assert_eq!(
            lines.push(b"\0\r@@ plan 3\n\xff\xfeabc\n"),
            ["@@ plan 3", "\u{fffd}\u{fffd}abc"]
        );
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let mut lines = Lines::default();
        let endless = vec![b'x'; LONGEST];
        assert!(lines.push(&endless).is_empty());
        assert_eq!(lines.push(b"y").len(), 1);
        assert!(lines.finish().is_none());
    }
}
