//! `ls`, `cat` and `write`; and `fill`, by which losses of power are tested.

use crate::{files::volume, print, println};
use alloc::{format, string::String, vec::Vec};
use files::{Result, Volume};

/// Most bytes of a line that `cat` keeps until it has seen its end.
const LONGEST_LINE: usize = 4096;

/// Does something with the volume, and says in a line why it did not work.
async fn with_volume(command: &str, work: impl AsyncFnOnce(Volume) -> Result<()>) {
    let Some(volume) = volume().await else {
        println!(
            "  no volume is mounted: there is no disk with FAT on it; `devices` shows what there is"
        );
        return;
    };
    if let Err(error) = work(volume).await {
        println!("  {command}: {error}");
    }
}

pub(super) async fn ls(argument: &str) {
    let (path, _) = path_of(argument);
    let path = String::from(path);
    with_volume("ls", async move |volume| {
        let mut entries = volume.list(&path).await?;
        entries.sort();
        for entry in entries {
            match entry.is_directory {
                true => println!("  {:>10}  {}/", "", entry.name),
                false => println!("  {:>10}  {}", entry.size, entry.name),
            }
        }
        Ok(())
    })
    .await;
}

pub(super) async fn cat(argument: &str) {
    let (path, _) = path_of(argument);
    if path.is_empty() {
        println!("  cat <path>: which file");
        return;
    }
    let path = String::from(path);
    with_volume("cat", async move |volume| {
        let mut file = volume.open(&path).await?;
        let mut line: Vec<u8> = Vec::new();
        let mut room = [0; 512];
        loop {
            let count = file.read(&mut room).await?;
            for byte in &room[..count] {
                match byte {
                    b'\n' => show(&mut line),
                    byte => line.push(*byte),
                }
                if line.len() == LONGEST_LINE {
                    show(&mut line);
                }
            }
            if count == 0 {
                break;
            }
        }
        if !line.is_empty() {
            show(&mut line);
        }
        Ok(())
    })
    .await;
}

/// Shows a line, without what a terminal would take for something else.
fn show(line: &mut Vec<u8>) {
    for letter in String::from_utf8_lossy(line).chars() {
        match letter {
            '\r' => {}
            '\t' => print!("    "),
            letter if letter.is_control() => print!("."),
            letter => print!("{letter}"),
        }
    }
    println!();
    line.clear();
}

pub(super) async fn write(argument: &str) {
    let (path, text) = path_of(argument);
    if path.is_empty() {
        println!("  write <path> <text>: which file, and what");
        return;
    }
    let (path, text) = (String::from(path), format!("{text}\n"));
    with_volume("write", async move |volume| {
        volume.write(&path, text.as_bytes()).await?;
        println!("  {} bytes are in {path}", text.len());
        Ok(())
    })
    .await;
}

/// The runner knows what is in each of these files.
pub(super) async fn fill(argument: &str) {
    let mut numbers = argument.split(' ').map(str::parse::<u32>);
    let (Some(Ok(first)), Some(Ok(count))) = (numbers.next(), numbers.next()) else {
        println!("  fill <first> <count>: the number of the first file, and how many");
        return;
    };
    with_volume("fill", async move |volume| {
        let _ = volume.create_dir("fill").await;
        for number in first..first.saturating_add(count) {
            let length = 200 + number.wrapping_mul(977) % 20_000;
            let byte = |at: u32| {
                number
                    .wrapping_mul(31)
                    .wrapping_add(at.wrapping_mul(7))
                    .wrapping_add(at / 251) as u8
            };
            let bytes: Vec<u8> = (0..length).map(byte).collect();
            volume
                .write(&format!("fill/file number {number}"), &bytes)
                .await?;
            println!("  file {number} is on the disk");
        }
        Ok(())
    })
    .await;
}

/// The path at the start of a line, which may be in quotes, and the rest.
fn path_of(line: &str) -> (&str, &str) {
    let line = line.trim_start();
    let found = match line.strip_prefix('"') {
        Some(rest) => rest.split_once('"'),
        None => line.split_once(' '),
    };
    let (path, rest) = found.unwrap_or((line.trim_matches('"'), ""));
    (path, rest.trim())
}
