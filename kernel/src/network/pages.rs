//! What the HTTP server shows: the scheduler's figures, for people and for programs.

use super::net;
use crate::mem;
use alloc::{format, string::String};
use core::fmt::Write;
use executor::{
    stats::{self, Activity, CoreStats, TaskInfo},
    time::Duration,
};
use net::http::{Page, Site};

/// Tasks that the page shows; the figures have all.
const MOST_ROWS: usize = 100;

/// The site of the image.
pub struct Pages;

impl Site for Pages {
    fn page(&self, path: &str) -> Option<Page> {
        match path {
            "/" => Some(Page {
                kind: "text/html; charset=utf-8",
                body: overview(),
            }),
            "/stats.json" => Some(Page {
                kind: "application/json",
                body: figures(),
            }),
            _ => None,
        }
    }
}

/// So many thousandths of a whole.
fn share(part: Duration, whole: Duration) -> u64 {
    (part.as_nanos() * 1000 / whole.as_nanos().max(1)).min(1000) as u64
}

fn state(task: &TaskInfo) -> &'static str {
    match task.activity {
        Activity::Running => "running",
        Activity::Preempted => "preempted",
        Activity::Runnable => "runnable",
        Activity::Waiting => "waiting",
        Activity::Finished => "finished",
    }
}

/// The page for people; it comes again every two seconds.
fn overview() -> String {
    let (stats, mut tasks) = (stats::stats(), stats::tasks());
    let mut page = String::from(
        "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"2\">\
         <title>Spindle</title><style>body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#222}\
         table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}\
         td.t,th.t{text-align:left}.b{background:#eee;width:10em;padding:0}.b div{background:#3a7;height:1em}</style>\
         <h1>Spindle</h1>",
    );
    let _ = write!(
        page,
        "<p>up {} s, {} cores, {} tasks, {} in the injector; <a href=\"/stats.json\">figures</a></p>",
        stats.age.as_secs(),
        stats.cores.len(),
        stats.live,
        stats.injected
    );
    page.push_str(
        "<table><tr><th>core<th class=t>busy so far<th>polls<th>spawned<th>queued<th>steals<th>stolen<th>kicks<th>preempted</tr>",
    );
    for (number, core) in stats.cores.iter().enumerate() {
        let busy = 1000 - share(core.idle, stats.age);
        let _ = write!(
            page,
            "<tr><td>{number}<td class=b><div style=\"width:{}%\"></div><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            busy / 10,
            core.polls,
            core.spawned,
            core.depth,
            core.steals,
            core.stolen,
            core.kicks,
            core.preemptions
        );
    }
    page.push_str(
        "</table><table><tr><th class=t>task<th class=t>name<th class=t>state<th>core<th>polls<th>ran<th class=t>waits for</tr>",
    );
    tasks.sort_by_key(|task| core::cmp::Reverse(task.running));
    for task in tasks.iter().take(MOST_ROWS) {
        let core = task
            .core
            .map_or(String::from("-"), |core| format!("{core}"));
        let name = task.name.as_deref().unwrap_or("-");
        let _ = write!(page, "<tr><td class=t>{}<td class=t>", task.id);
        push_html(&mut page, name);
        let _ = write!(
            page,
            "<td class=t>{}<td>{core}<td>{}<td>{} us<td class=t>{}</tr>",
            state(task),
            task.polls,
            task.running.as_micros(),
            task.waits_for
        );
    }
    page.push_str("</table>");
    if tasks.len() > MOST_ROWS {
        let _ = write!(page, "<p>and {} more</p>", tasks.len() - MOST_ROWS);
    }
    page.push_str("</html>\n");
    page
}

/// Adds text that is not markup.
fn push_html(page: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '&' => page.push_str("&amp;"),
            '"' => page.push_str("&quot;"),
            other => page.push(other),
        }
    }
}

/// Adds a string as JSON has it.
fn push_json(page: &mut String, text: &str) {
    page.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => page.extend(['\\', character]),
            control if control < ' ' => {
                let _ = write!(page, "\\u{:04x}", control as u32);
            }
            other => page.push(other),
        }
    }
    page.push('"');
}

fn push_core(page: &mut String, core: &CoreStats) {
    let _ = write!(
        page,
        "{{\"polls\":{},\"spawned\":{},\"finished\":{},\"steals_tried\":{},\"steals\":{},\"stolen\":{},\"overflows\":{},\
         \"kicks\":{},\"parks\":{},\"suspensions\":{},\"preemptions\":{},\"ticks\":{},\"lost\":{},\"idle_us\":{},\"depth\":{}}}",
        core.polls,
        core.spawned,
        core.finished,
        core.steals_tried,
        core.steals,
        core.stolen,
        core.overflows,
        core.kicks,
        core.parks,
        core.suspensions,
        core.preemptions,
        core.ticks,
        core.lost,
        core.idle.as_micros(),
        core.depth
    );
}

/// The figures for programs.
fn figures() -> String {
    let (stats, tasks, memory) = (stats::stats(), stats::tasks(), mem::stats());
    let mut page = String::new();
    let _ = write!(
        page,
        "{{\"uptime_us\":{},\"live\":{},\"injected\":{},\"cores\":[",
        stats.age.as_micros(),
        stats.live,
        stats.injected
    );
    for (number, core) in stats.cores.iter().enumerate() {
        if number > 0 {
            page.push(',');
        }
        push_core(&mut page, core);
    }
    page.push_str("],\"total\":");
    push_core(&mut page, &stats.total);
    let _ = write!(
        page,
        ",\"memory\":{{\"frames\":{},\"frames_free\":{},\"heap_bytes\":{},\"heap_objects\":{}}},\"interfaces\":[",
        memory.frames_total, memory.frames_free, memory.live_bytes, memory.live_objects
    );
    for (number, interface) in net().interfaces().iter().enumerate() {
        if number > 0 {
            page.push(',');
        }
        page.push_str("{\"name\":");
        push_json(&mut page, &interface.name);
        let _ = write!(
            page,
            ",\"received\":{},\"sent\":{},\"not_sent\":{},\"connections\":{},\"accepted\":{},\"overflowed\":{}}}",
            interface.frames[0],
            interface.frames[1],
            interface.frames[2],
            interface.connections[0],
            interface.connections[1],
            interface.connections[2]
        );
    }
    page.push_str("],\"tasks\":[");
    for (number, task) in tasks.iter().enumerate() {
        if number > 0 {
            page.push(',');
        }
        let _ = write!(page, "{{\"id\":\"{}\",\"name\":", task.id);
        match &task.name {
            Some(name) => push_json(&mut page, name),
            None => page.push_str("null"),
        }
        let _ = write!(page, ",\"state\":\"{}\",\"core\":", state(task));
        match task.core {
            Some(core) => drop(write!(page, "{core}")),
            None => page.push_str("null"),
        }
        let _ = write!(
            page,
            ",\"polls\":{},\"running_us\":{}}}",
            task.polls,
            task.running.as_micros()
        );
    }
    page.push_str("]}\n");
    page
}
