//! The `#[kernel_test]` attribute.
//!
//! It leaves the function as it is, only never inlined, and puts one record about it into the
//! `.spindle.tests` section, which the linker scripts of `boot` gather into a
//! table. `testing` reads that table; nothing runs before `main`.

use proc_macro::{TokenStream, TokenTree};

/// Makes a function a test of the image.
///
/// ```ignore
/// #[kernel_test]                                       // any board, any number of cores, 60 s
/// fn a_name_that_is_a_sentence() { assert_eq!(1 + 1, 2); }
///
/// #[kernel_test(cores = 2, boards = "pc virt", limit = 120)]
/// fn another() -> Result<(), &'static str> { Ok(()) }
/// ```
///
/// - `cores`: skipped when fewer cores are up.
/// - `boards`: skipped on boards that are not in the list.
/// - `limit`: seconds on the wall clock after which the runner calls it hung.
/// - `long = true`: runs by `make test-long` only.
/// - `disk = true`: runs only where the runner has attached a disk.
///
/// A panic ends the machine and the runner boots it anew for the tests that
/// are left; an `Err` fails the test and the machine goes on.
#[proc_macro_attribute]
pub fn kernel_test(options: TokenStream, function: TokenStream) -> TokenStream {
    let name = match function_name(function.clone()) {
        Some(name) => name,
        None => return error("#[kernel_test] goes on a function"),
    };
    let options = match Options::parse(options) {
        Ok(options) => options,
        Err(message) => return error(&message),
    };
    let Options {
        cores,
        boards,
        limit,
        long,
        disk,
    } = options;
    let record = format!(
        "const _: () = {{
            #[used]
            #[unsafe(link_section = \".spindle.tests\")]
            static TEST: ::testing::KernelTest = ::testing::KernelTest {{
                name: ::core::concat!(::core::module_path!(), \"::\", \"{name}\"),
                cores: {cores},
                boards: {boards},
                limit_seconds: {limit},
                is_long: {long},
                needs_disk: {disk},
                run: || ::testing::Outcome::report({name}()),
            }};
        }};"
    );
    // Kept apart, so that a backtrace names it.
    let mut output: TokenStream = "#[inline(never)]"
        .parse()
        .expect("an attribute is valid Rust");
    output.extend(function);
    output.extend(
        record
            .parse::<TokenStream>()
            .expect("the record is valid Rust"),
    );
    output
}

struct Options {
    cores: String,
    boards: String,
    limit: String,
    long: String,
    disk: String,
}

impl Options {
    fn parse(tokens: TokenStream) -> Result<Self, String> {
        let mut options = Self {
            cores: "1".into(),
            boards: "\"\"".into(),
            limit: "60".into(),
            long: "false".into(),
            disk: "false".into(),
        };
        let mut tokens = tokens.into_iter();
        while let Some(key) = tokens.next() {
            let key = key.to_string();
            match tokens.next() {
                Some(TokenTree::Punct(p)) if p.as_char() == '=' => {}
                _ => return Err(format!("expected `{key} = value`")),
            }
            let value = tokens.next().ok_or(format!("`{key}` has no value"))?;
            let is_word = matches!(&value, TokenTree::Ident(word) if word.to_string() == "true");
            if !is_word && !matches!(value, TokenTree::Literal(_)) {
                return Err(format!("the value of `{key}` must be a literal"));
            }
            match key.as_str() {
                "cores" => options.cores = value.to_string(),
                "boards" => options.boards = value.to_string(),
                "limit" => options.limit = value.to_string(),
                "long" => options.long = value.to_string(),
                "disk" => options.disk = value.to_string(),
                _ => {
                    return Err(format!(
                        "unknown option `{key}`: use cores, boards, limit, long or disk"
                    ));
                }
            }
            match tokens.next() {
                None => break,
                Some(TokenTree::Punct(p)) if p.as_char() == ',' => {}
                Some(other) => return Err(format!("expected `,`, found `{other}`")),
            }
        }
        Ok(options)
    }
}

fn function_name(function: TokenStream) -> Option<String> {
    let mut tokens = function.into_iter();
    tokens
        .find(|token| matches!(token, TokenTree::Ident(ident) if ident.to_string() == "fn"))
        .and_then(|_| tokens.next())
        .map(|name| name.to_string())
}

fn error(message: &str) -> TokenStream {
    format!("::core::compile_error!({message:?});")
        .parse()
        .expect("a string literal is valid Rust")
}
