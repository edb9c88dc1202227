//! JUnit XML, which is what continuous integration servers read. A suite is a variant of a board.

use crate::report::Suite;
use crate::verdict::{TestResult, Verdict};
use std::fmt::Write;

/// The whole file.
pub fn xml(suites: &[Suite]) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for suite in suites {
        // Writing to a String cannot fail.
        let _ = write_suite(&mut text, suite);
    }
    text + "</testsuites>\n"
}

fn write_suite(text: &mut String, suite: &Suite) -> std::fmt::Result {
    let count = |what: fn(&Verdict) -> bool| {
        suite
            .results
            .iter()
            .filter(|result| what(&result.verdict))
            .count()
    };
    writeln!(
        text,
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{:.3}\">",
        escape(&suite.id),
        suite.results.len(),
        count(|verdict| matches!(verdict, Verdict::Wrong { .. })),
        count(|verdict| matches!(verdict, Verdict::Skipped(_))),
        suite.time.as_secs_f64()
    )?;
    if !suite.notes.is_empty() {
        writeln!(text, "    <properties>")?;
        for note in &suite.notes {
            let (name, value) = note.split_once(['=', ':']).unwrap_or(("note", note));
            let (name, value) = (escape(name.trim()), escape(value.trim()));
            writeln!(text, "      <property name=\"{name}\" value=\"{value}\"/>")?;
        }
        writeln!(text, "    </properties>")?;
    }
    for result in &suite.results {
        write_case(text, suite, result)?;
    }
    writeln!(text, "  </testsuite>")
}

fn write_case(text: &mut String, suite: &Suite, result: &TestResult) -> std::fmt::Result {
    let (module, name) = result.name.rsplit_once("::").unwrap_or(("", &result.name));
    let class = if module.is_empty() {
        suite.id.clone()
    } else {
        format!("{}.{}", suite.id, module.replace("::", "."))
    };
    write!(
        text,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.6}\"",
        escape(&class),
        escape(name),
        result.time.as_secs_f64()
    )?;
    match &result.verdict {
        Verdict::Passed => writeln!(text, "/>"),
        Verdict::Skipped(reason) => writeln!(
            text,
            "><skipped message=\"{}\"/></testcase>",
            escape(reason)
        ),
        Verdict::Wrong { kind, message } => {
            writeln!(
                text,
                ">\n      <failure type=\"{kind}\" message=\"{}\"/>",
                escape(message)
            )?;
            if !result.console.is_empty() {
                writeln!(
                    text,
                    "      <system-out>{}</system-out>",
                    escape(&result.console)
                )?;
            }
            writeln!(text, "    </testcase>")
        }
    }
}

/// Text that may stand anywhere in XML. Characters that XML cannot hold at all become `?`.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            '\0'..='\x1f' | '\x7f' | '\u{fffe}' | '\u{ffff}' => escaped.push('?'),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Kind;
    use std::time::Duration;

    #[test]
    fn a_suite_tells_what_passed_failed_and_was_skipped() {
        let mut skipped = TestResult::passed("b::two", Duration::ZERO);
        skipped.verdict = Verdict::Skipped("one core".into());
        let suite = Suite {
            id: "pc-4".into(),
            results: vec![
                TestResult::passed("a::one", Duration::from_millis(5)),
                skipped,
                TestResult::wrong(
                    "three",
                    Kind::StackOverflow,
                    "a < b & \"c\"",
                    "x\x1b[0m\0\n".into(),
                ),
            ],
            notes: vec!["idle: 0.2 % of one host core".into()],
            time: Duration::from_secs(1),
        };
        let text = xml(&[suite]);
        for part in [
            "<testsuite name=\"pc-4\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\" time=\"1.000\">",
            "<property name=\"idle\" value=\"0.2 % of one host core\"/>",
            "<testcase classname=\"pc-4.a\" name=\"one\" time=\"0.005000\"/>",
            "<skipped message=\"one core\"/>",
            "<failure type=\"stack overflow\" message=\"a &lt; b &amp; &quot;c&quot;\"/>",
            "<system-out>x?[0m?\n</system-out>",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
