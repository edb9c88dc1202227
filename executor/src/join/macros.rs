//! The macros `join!` and `try_join!`. What they have in common is `__join!`: the list of futures, and the way to each output.

/// Waits for all of several futures: a tuple of their outputs, in their order.
///
/// All are polled by the task itself, one after the other: while one waits, the others go on, but they do not run at the same time; for
/// that there is [`spawn`](crate::spawn). Each time the task is woken, all that are not ready are polled, each time from the next
/// one on; with `biased;` as the first word, always from the first on. A future is dropped as soon as it is ready.
///
/// ```
/// use executor::{Runtime, join, time::{Duration, Instant, sleep}};
///
/// # let runtime = Runtime::builder().workers(1).virtual_clock().build()?;
/// let (nothing, sum, took) = runtime.block_on(async {
///     let began = Instant::now();
///     let second = Duration::from_secs(1);
///     let (nothing, sum) = join!(sleep(second), async {
///         sleep(second).await;
///         1 + 1
///     });
///     (nothing, sum, began.elapsed())
/// });
/// assert_eq!((nothing, sum, took), ((), 2, Duration::from_secs(1)));
/// # Ok::<(), executor::BuildError>(())
/// ```
///
/// ```compile_fail,E0277
/// // Not a future.
/// async fn wrong() { executor::join!(5); }
/// ```
#[macro_export]
macro_rules! join {
    (biased; $($future:expr),* $(,)?) => {
        $crate::__join!(@join true outputs $({$future})*)
    };
    ($($future:expr),* $(,)?) => {
        $crate::__join!(@join false outputs $({$future})*)
    };
}

/// Waits for all of several futures whose outputs are [`Result`]s: `Ok` of a tuple of what they have, in their order; or the first
/// `Err` that there is. Then the others are dropped where they are.
///
/// All have the same error. Otherwise like [`join!`].
///
/// ```
/// use executor::{block_on_simple, try_join};
/// use std::future::{pending, ready};
///
/// block_on_simple(async {
///     assert_eq!(try_join!(ready(Ok::<_, ()>(1)), ready(Ok("two"))), Ok((1, "two")));
///     assert_eq!(try_join!(pending::<Result<(), _>>(), ready(Err::<(), _>("no"))), Err("no"));
/// });
/// ```
#[macro_export]
macro_rules! try_join {
    (biased; $($future:expr),* $(,)?) => {
        $crate::__join!(@try_join true outputs $({$future})*)
    };
    ($($future:expr),* $(,)?) => {
        $crate::__join!(@try_join false outputs $({$future})*)
    };
}

/// The steps of `join!` and `try_join!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __join {
    // An output may be of a type that has no values.
    (@join $biased:tt $outputs:ident $($future:tt)*) => {
        match $crate::join::parts::Join::<$biased, _, _>::new(
            [$($crate::__join!(@unit $future)),*],
            $crate::__join!(@list $($future)*),
        )
        .await
        {
            #[allow(unreachable_code)]
            $outputs => $crate::__join!(@tuple [] ($outputs) $($future)*),
        }
    };
    (@try_join $biased:tt $outputs:ident $($future:tt)*) => {
        match $crate::join::parts::TryJoin::<$biased, _, _, _>::new(
            [$($crate::__join!(@unit $future)),*],
            $crate::__join!(@list $($future)*),
        )
        .await
        {
            #[allow(unreachable_code)]
            ::core::result::Result::Ok($outputs) => {
                ::core::result::Result::Ok($crate::__join!(@tuple [] ($outputs) $($future)*))
            }
            #[allow(unreachable_code)]
            ::core::result::Result::Err(error) => ::core::result::Result::Err(error),
        }
    };

    (@unit $future:tt) => { () };

    (@list) => { $crate::join::parts::End };
    (@list {$a:expr} {$b:expr} {$c:expr} {$d:expr} {$e:expr} {$f:expr} {$g:expr} {$h:expr} $($rest:tt)*) => {
        $crate::join::parts::Part::new($a, $crate::join::parts::Part::new($b,
        $crate::join::parts::Part::new($c, $crate::join::parts::Part::new($d,
        $crate::join::parts::Part::new($e, $crate::join::parts::Part::new($f,
        $crate::join::parts::Part::new($g, $crate::join::parts::Part::new($h,
            $crate::__join!(@list $($rest)*)))))))))
    };
    (@list {$a:expr} $($rest:tt)*) => {
        $crate::join::parts::Part::new($a, $crate::__join!(@list $($rest)*))
    };

    // `@tuple [outputs that are named] (the way to the rest) futures that are not`
    (@tuple [] ($($way:tt)*)) => {{
        let $crate::join::parts::End = $($way)*;
    }};
    (@tuple [$(($($output:tt)*))*] $way:tt) => { ($($($output)*,)*) };
    (@tuple [$($named:tt)*] ($($way:tt)*) $a:tt $b:tt $c:tt $d:tt $e:tt $f:tt $g:tt $h:tt $($rest:tt)*) => {
        $crate::__join!(@tuple [$($named)*
            ($($way)* .0)
            ($($way)* .1 .0)
            ($($way)* .1 .1 .0)
            ($($way)* .1 .1 .1 .0)
            ($($way)* .1 .1 .1 .1 .0)
            ($($way)* .1 .1 .1 .1 .1 .0)
            ($($way)* .1 .1 .1 .1 .1 .1 .0)
            ($($way)* .1 .1 .1 .1 .1 .1 .1 .0)
        ] ($($way)* .1 .1 .1 .1 .1 .1 .1 .1) $($rest)*)
    };
    (@tuple [$($named:tt)*] ($($way:tt)*) $a:tt $($rest:tt)*) => {
        $crate::__join!(@tuple [$($named)* ($($way)* .0)] ($($way)* .1) $($rest)*)
    };
}
