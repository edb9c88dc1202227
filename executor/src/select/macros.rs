//! The macros `select!` and `race!`.
//!
//! `select!` reads one arm a step, for only a step of its own can tell `else` and `timeout(..)` from a pattern,
//! and a body that is a block from one that ends with a comma. What it has read is written out eight arms a
//! step. So a hundred arms are within the compiler's limit of 128 steps.

/// Waits for several futures at once, and goes on with the first that is ready.
///
/// ```
/// use executor::{block_on_simple, select, sync::{Mutex, Notify}};
///
/// let (mutex, bell) = (Mutex::new(7), Notify::new());
/// let said = block_on_simple(async {
///     select! {
///         guard = mutex.lock() => format!("locked: {}", *guard),
///         _ = bell.notified() => "the bell".into(),
///     }
/// });
/// assert_eq!(said, "locked: 7");
/// ```
///
/// # Arms
///
/// `pattern = future => body,` up to a hundred of them; beyond that the crate needs a higher `#![recursion_limit]`. Commas are as in
/// `match`: a body that is a block needs none.
///
/// | | |
/// |---|---|
/// | `pattern = future, if condition => body` | polled only if the condition is true |
/// | `default => body` | taken at once if no arm is ready now |
/// | `timeout(duration) => body` | taken if no arm was ready in time |
/// | `else => body` | taken if no arm is left |
/// | `biased;` | as the first word: arms are polled in their order |
///
/// 1. All conditions are evaluated, then all futures, also those whose condition is false, in their order.
/// 2. The arms are polled, from a random one on, and again each time that one of them wakes the task. Each is polled by the task
///    itself, one after the other; for running at the same time there is [`spawn`](crate::spawn).
/// 3. The output of the first that is ready is matched. If it does not match, it is dropped, and
///    the arm is disabled: the others are waited for. If none is left, `else` is taken; without one, `default` or `timeout`
///    when its time has come; without these it panics.
/// 4. All futures are dropped, in their order.
/// 5. The body runs, in the function that has the `select!`: it may `break`, `continue`, `return`, `.await` and use
///    `?`. What the futures had borrowed is free again, so several bodies may use the same thing.
///
/// The value is that of the body. A lost future is dropped; one that shall go on is
/// lent, `&mut future`, and has to be pinned if it is not [`Unpin`].
///
/// ```
/// use executor::{Runtime, select, time::{Duration, sleep}};
/// use std::pin::pin;
///
/// # let runtime = Runtime::builder().workers(1).virtual_clock().build()?;
/// let turns = runtime.block_on(async {
///     let mut all = pin!(sleep(Duration::from_millis(35)));
///     let mut turns = 0;
///     loop {
///         select! {
///             () = &mut all => break turns,
///             timeout(Duration::from_millis(10)) => turns += 1,
///         }
///     }
/// });
/// assert_eq!(turns, 3);
/// # Ok::<(), executor::BuildError>(())
/// ```
///
/// # What a lost arm loses
///
/// Nothing, with the futures of this crate: [`lock`](crate::sync::Mutex::lock), [`acquire`](crate::sync::Semaphore::acquire),
/// [`notified`](crate::sync::Notify::notified), [`tick`](crate::time::Interval::tick), [`next`](crate::stream::StreamNext::next) of a stream,
/// and what is received. What was granted to
/// one that is dropped goes to the next who waits. But it loses its place in the queue: who waits
/// in a loop with others makes the future outside of it, and lends it.
///
/// An async block or function is dropped where it is: what it has done remains done, and what it holds is dropped.
/// Two awaits in one arm are safe only if it does not matter when the second is never reached.
///
/// # Ready now
///
/// With `default` it never waits. No arm is taken for pending that merely would
/// give way to other tasks, as ready futures of this crate do now and then. Without `default` the whole
/// gives way, before it looks.
///
/// ```
/// use executor::{block_on_simple, select, sync::Semaphore};
///
/// let semaphore = Semaphore::new(0);
/// block_on_simple(async {
///     select! {
///         _permit = semaphore.acquire() => panic!("there is none"),
///         default => {}
///     }
/// });
/// ```
///
/// # Fairness
///
/// The start is random, so that of arms that are always ready each is taken as often as the others. With
/// `biased;` an arm that is always ready keeps those below it from ever being taken: put it last.
///
/// # Panics
/// If no arm is left, and there is none of `else`, `default` and `timeout`. `timeout` panics where no
/// [`Runtime`](crate::Runtime) runs, and needs the feature `alloc`; all else needs neither.
///
/// # Mistakes
///
/// ```compile_fail
/// # async fn wrong() {
/// // There must be something to wait for.
/// executor::select! {}
/// # }
/// ```
/// ```compile_fail
/// # async fn wrong(a: std::future::Ready<u8>) {
/// // An arm has a pattern.
/// executor::select! { a => 1 }
/// # }
/// ```
/// ```compile_fail
/// # async fn wrong(a: std::future::Ready<u8>) {
/// // Only one of them can be taken.
/// executor::select! { _ = a => {} default => {} default => {} }
/// # }
/// ```
/// ```compile_fail
/// # async fn wrong(a: std::future::Ready<u8>) {
/// // With `default` nobody waits for the time.
/// executor::select! { _ = a => {} default => {} timeout(std::time::Duration::ZERO) => {} }
/// # }
/// ```
/// ```compile_fail
/// # async fn wrong(a: std::future::Ready<u8>, b: std::future::Ready<u8>) {
/// // A comma is missing.
/// executor::select! { x = a => x + 1 y = b => y }
/// # }
/// ```
/// ```compile_fail,E0308
/// # async fn wrong(a: std::future::Ready<u8>) {
/// // A condition is a `bool`.
/// executor::select! { _ = a, if 1 => {} }
/// # }
/// ```
/// ```compile_fail,E0277
/// # async fn wrong() {
/// // Not a future.
/// executor::select! { _ = 5 => {} }
/// # }
/// ```
/// ```compile_fail,E0728
/// # fn wrong(a: std::future::Ready<u8>) {
/// // Not in an async function.
/// executor::select! { _ = a => {} }
/// # }
/// ```
#[macro_export]
macro_rules! select {
    () => {
        ::core::compile_error!("`select!` needs an arm: `pattern = future => body`")
    };
    (biased; $($arms:tt)*) => {
        $crate::__select!(@arms true () () [] [] $($arms)*)
    };
    (biased $(, $($arms:tt)*)?) => {
        ::core::compile_error!("`select!`: `biased` is followed by a semicolon: `biased;`")
    };
    ($($arms:tt)*) => {
        $crate::__select!(@arms false () () [] [] $($arms)*)
    };
}

/// The steps of `select!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    // `@arms BIASED (OTHERWISE) (ELSE) [ARMS] [a mark for each of them] what is left to read`: reads one arm.

    (@arms $biased:tt $other:tt $else:tt [$($arm:tt)*] $before:tt) => {
        $crate::__select!(@whole $biased $other $else [$($arm)*])
    };

    (@arms $biased:tt $other:tt () $arms:tt $before:tt else => $body:block, $($rest:tt)*) => {
        $crate::__select!(@arms $biased $other ($body) $arms $before $($rest)*)
    };
    (@arms $biased:tt $other:tt () $arms:tt $before:tt else => $body:block $($rest:tt)*) => {
        $crate::__select!(@arms $biased $other ($body) $arms $before $($rest)*)
    };
    (@arms $biased:tt $other:tt () $arms:tt $before:tt else => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!(@arms $biased $other ($body) $arms $before $($($rest)*)?)
    };
    (@arms $biased:tt $other:tt ($taken:expr) $arms:tt $before:tt else => $($rest:tt)*) => {
        ::core::compile_error!("`select!` has two `else`")
    };

    (@arms $biased:tt () $else:tt $arms:tt $before:tt default => $body:block, $($rest:tt)*) => {
        $crate::__select!(@arms $biased (($crate::select::arms::AtOnce) $body) $else $arms $before $($rest)*)
    };
    (@arms $biased:tt () $else:tt $arms:tt $before:tt default => $body:block $($rest:tt)*) => {
        $crate::__select!(@arms $biased (($crate::select::arms::AtOnce) $body) $else $arms $before $($rest)*)
    };
    (@arms $biased:tt () $else:tt $arms:tt $before:tt default => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!(@arms $biased (($crate::select::arms::AtOnce) $body) $else $arms $before $($($rest)*)?)
    };

    (@arms $biased:tt () $else:tt $arms:tt $before:tt timeout($limit:expr) => $body:block, $($rest:tt)*) => {
        $crate::__select!(@arms $biased (($crate::time::sleep($limit)) $body) $else $arms $before $($rest)*)
    };
    (@arms $biased:tt () $else:tt $arms:tt $before:tt timeout($limit:expr) => $body:block $($rest:tt)*) => {
        $crate::__select!(@arms $biased (($crate::time::sleep($limit)) $body) $else $arms $before $($rest)*)
    };
    (@arms $biased:tt () $else:tt $arms:tt $before:tt timeout($limit:expr) => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!(@arms $biased (($crate::time::sleep($limit)) $body) $else $arms $before $($($rest)*)?)
    };

    (@arms $biased:tt ($($taken:tt)+) $else:tt $arms:tt $before:tt default => $($rest:tt)*) => {
        ::core::compile_error!("`select!` has `default` beside another `default` or a `timeout`: only one of them can be taken")
    };
    (@arms $biased:tt ($($taken:tt)+) $else:tt $arms:tt $before:tt timeout($limit:expr) => $($rest:tt)*) => {
        ::core::compile_error!("`select!` has `timeout` beside another `timeout` or a `default`: only one of them can be taken")
    };

    (@arms $biased:tt $other:tt $else:tt [$($arm:tt)*] [$($before:tt)*]
        $pattern:pat = $future:expr $(, if $condition:expr)? => $body:block, $($rest:tt)*
    ) => {
        $crate::__select!(@arms $biased $other $else [$($arm)* {[$($before)*] ($pattern) ($future) (true $(&& $condition)?) ($body)}] [$($before)* *] $($rest)*)
    };
    (@arms $biased:tt $other:tt $else:tt [$($arm:tt)*] [$($before:tt)*]
        $pattern:pat = $future:expr $(, if $condition:expr)? => $body:block $($rest:tt)*
    ) => {
        $crate::__select!(@arms $biased $other $else [$($arm)* {[$($before)*] ($pattern) ($future) (true $(&& $condition)?) ($body)}] [$($before)* *] $($rest)*)
    };
    (@arms $biased:tt $other:tt $else:tt [$($arm:tt)*] [$($before:tt)*]
        $pattern:pat = $future:expr $(, if $condition:expr)? => $body:expr $(, $($rest:tt)*)?
    ) => {
        $crate::__select!(@arms $biased $other $else [$($arm)* {[$($before)*] ($pattern) ($future) (true $(&& $condition)?) ($body)}] [$($before)* *] $($($rest)*)?)
    };

    (@arms $biased:tt $other:tt $else:tt $arms:tt $before:tt $($rest:tt)*) => {
        ::core::compile_error!(::core::concat!(
            "`select!` wants `pattern = future => body`, `pattern = future, if condition => body`, `default => body`, ",
            "`timeout(duration) => body` or `else => body`, with a comma after a body that is not a block, but found: `",
            ::core::stringify!($($rest)*), "`"
        ))
    };

    // All is read.

    (@whole $biased:tt $other:tt $else:tt [$({$before:tt ($pattern:pat) ($future:expr) $condition:tt ($body:expr)})*]) => {{
        let enabled = [$($condition),*];
        // Futures, and what they borrow of what is made on the way, end with this statement.
        let outcome = $crate::select::arms::Select::<
            $biased,
            { $crate::__select!(@has_else $else) },
            _,
            _,
            _,
        >::new(
            enabled,
            $crate::__select!(@list $({($pattern) ($future)})*),
            $crate::__select!(@otherwise $other),
        )
        .await;
        // A pattern may have `ref mut`.
        #[allow(unused_mut)]
        let mut outcome = outcome;
        match outcome {
            $($crate::select::arms::Outcome::Arm($crate::__select!(@won $before $pattern)) => $body,)*
            $crate::select::arms::Outcome::Otherwise => $crate::__select!(@other_body $other),
            $crate::select::arms::Outcome::Disabled => $crate::__select!(@else_body $else),
            #[allow(unreachable_patterns)]
            _ => $crate::select::arms::not_here(),
        }
    }};

    (@has_else ()) => { false };
    (@has_else ($body:expr)) => { true };
    (@else_body ()) => { $crate::select::arms::all_disabled() };
    (@else_body ($body:expr)) => { $body };
    (@otherwise ()) => { $crate::select::arms::Wait };
    (@otherwise (($other:expr) $body:expr)) => { $other };
    (@other_body ()) => { $crate::select::arms::not_here() };
    (@other_body (($other:expr) $body:expr)) => { $body };

    // The list of arms, eight a step.

    (@list) => { $crate::select::arms::End };
    (@list {($a1:pat) ($a2:expr)}
        {($b1:pat) ($b2:expr)}
        {($c1:pat) ($c2:expr)}
        {($d1:pat) ($d2:expr)}
        {($e1:pat) ($e2:expr)}
        {($f1:pat) ($f2:expr)}
        {($g1:pat) ($g2:expr)}
        {($h1:pat) ($h2:expr)}
        $($rest:tt)*
    ) => {
        $crate::select::arms::Arm::new($a2, $crate::__select!(@matches $a1),
        $crate::select::arms::Arm::new($b2, $crate::__select!(@matches $b1),
        $crate::select::arms::Arm::new($c2, $crate::__select!(@matches $c1),
        $crate::select::arms::Arm::new($d2, $crate::__select!(@matches $d1),
        $crate::select::arms::Arm::new($e2, $crate::__select!(@matches $e1),
        $crate::select::arms::Arm::new($f2, $crate::__select!(@matches $f1),
        $crate::select::arms::Arm::new($g2, $crate::__select!(@matches $g1),
        $crate::select::arms::Arm::new($h2, $crate::__select!(@matches $h1),
        $crate::__select!(@list $($rest)*)))))))))
    };
    (@list {($pattern:pat) ($future:expr)} $($rest:tt)*) => {
        $crate::select::arms::Arm::new($future, $crate::__select!(@matches $pattern), $crate::__select!(@list $($rest)*))
    };

    // Gives its argument back if it matches. A pattern may move what it matches, so it is asked as the pattern of an
    // arm with a guard: that sees by reference, and nothing is moved, as the guard says no.
    (@matches $pattern:pat) => {
        |#[allow(unused_mut)] mut output| {
            let mut is_match = false;
            #[allow(unreachable_code)]
            match output {
                #[allow(unused_variables, unused_mut, unreachable_patterns)]
                $pattern if { is_match = true; false } => $crate::select::arms::not_here(),
                #[allow(unreachable_patterns)]
                _ => {}
            }
            // It may be of a type that has no values.
            #[allow(unreachable_code)]
            let output = if is_match { ::core::option::Option::Some(output) } else { ::core::option::Option::None };
            output
        }
    };

    // The output of an arm, by as many marks as there are arms before it. In one pattern for each arm, and not in matches
    // within each other: a body that awaits would keep the value of each of these.
    (@won [] $pattern:pat) => { $crate::select::arms::Won::This($pattern) };
    (@won [* * * * * * * * $($before:tt)*] $pattern:pat) => {
        $crate::select::arms::Won::Later($crate::select::arms::Won::Later(
        $crate::select::arms::Won::Later($crate::select::arms::Won::Later(
        $crate::select::arms::Won::Later($crate::select::arms::Won::Later(
        $crate::select::arms::Won::Later($crate::select::arms::Won::Later(
            $crate::__select!(@won [$($before)*] $pattern)
        ))))))))
    };
    (@won [* $($before:tt)*] $pattern:pat) => {
        $crate::select::arms::Won::Later($crate::__select!(@won [$($before)*] $pattern))
    };
}

/// Waits for the first of several futures that is ready, and drops the others: its output.
///
/// All have the same output. The start is random, as with [`select!`]; with `biased;` as the first word, the first that
/// is ready in their order wins. For two futures as a value, see [`race`](crate::select::race()); for a collection,
/// [`race_all`](crate::select::race_all).
///
/// ```
/// use executor::{block_on_simple, race};
/// use std::future::{pending, ready};
///
/// let first = block_on_simple(async { race!(pending(), ready(2), pending()) });
/// assert_eq!(first, 2);
/// ```
///
/// ```compile_fail
/// // Nobody would ever win.
/// async fn wrong() { executor::race!() }
/// ```
#[macro_export]
macro_rules! race {
    (biased; $($future:expr),+ $(,)?) => {
        $crate::select! { biased; $(output = $future => output,)+ }
    };
    ($($future:expr),+ $(,)?) => {
        $crate::select! { $(output = $future => output,)+ }
    };
    ($($other:tt)*) => {
        ::core::compile_error!("`race!` wants futures: `race!(first, second)`")
    };
}
