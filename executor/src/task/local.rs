//! Values that follow a task, without being passed from call to call.
//!
//! A [`LocalKey`] holds nothing itself. The value is in a scope (a pinned
//! [`LocalScope`], or the stack of [`sync_scope`](LocalKey::sync_scope)), and while
//! the inside of the scope runs, a node on the stack that says so is on top of
//! the chain that the context's block keeps ([`hal::context`]). A look-up walks
//! that chain. Where a context is switched away in the middle of a poll, its
//! block and with it its chain go with it.
//!
//! Why a reference that [`with`](LocalKey::with) hands out is good:
//! 1. A node is in the chain only within [`enter`], whose caller holds the value
//!    borrowed for as long; and it is taken out of the chain on every way out of
//!    that, a panic's too.
//! 2. The chain is walked only by code that the context itself runs above that
//!    frame: so the frame, the node and the borrow outlast the call of `with`,
//!    from which the reference cannot escape. A handler that interrupts the
//!    context is refused: the value need not be `Sync`.
//! 3. A node answers to its key's address and its value's type, so even two
//!    keys that were laid over each other could not be taken for one another.

use core::{
    any::TypeId,
    fmt,
    future::Future,
    marker::PhantomData,
    mem::ManuallyDrop,
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll},
};
use hal::context;

/// Declares task-locals: statics of type [`LocalKey`], without a value until one
/// is in scope.
///
/// ```
/// use executor::{Runtime, task::yield_now, task_local};
///
/// task_local! {
///     /// Whose request is being served.
///     pub static USER: u32;
/// }
///
/// async fn serve() -> u32 {
///     yield_now().await;
///     USER.get()
/// }
///
/// # let runtime = Runtime::builder().workers(1).build().unwrap();
/// # runtime.block_on(async {
/// assert_eq!(USER.scope(7, serve()).await, 7);
/// # });
/// ```
#[macro_export]
macro_rules! task_local {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty);* $(;)?) => {
        $(
            $(#[$attribute])*
            $visibility static $name: $crate::task::LocalKey<$type> =
                $crate::task::LocalKey::named(stringify!($name));
        )*
    };
}

/// A task-local; made by [`task_local!`](crate::task_local).
///
/// A value is seen by everything inside its scope that the same task does, in
/// `select` and `join` too, and in the destructors of what is cancelled there.
/// Tasks that are spawned there do not inherit it: they may outlive it. Open a
/// scope for their future instead. Finalizers run when the scopes are gone.
pub struct LocalKey<T: 'static> {
    /// Also makes it larger than nothing: statics of no size may share their address.
    name: &'static str,
    values: PhantomData<fn() -> T>,
}

/// There is no value in scope here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotInScope {
    name: &'static str,
}

impl fmt::Display for NotInScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        write!(
            f,
            "the task-local `{name}` has no value here: run this within `{name}.scope(..)`"
        )
    }
}

impl core::error::Error for NotInScope {}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn named(name: &'static str) -> Self {
        Self {
            name,
            values: PhantomData,
        }
    }

    /// Runs a future with a value in scope. An inner scope of the same key hides the outer one.
    pub fn scope<F: Future>(&'static self, value: T, future: F) -> LocalScope<T, F> {
        LocalScope {
            key: self,
            value,
            future: ManuallyDrop::new(future),
        }
    }

    /// Calls a function with a value in scope.
    pub fn sync_scope<R>(&'static self, value: T, inside: impl FnOnce() -> R) -> R {
        enter(self, &value, inside)
    }

    /// Looks at the value in scope.
    ///
    /// # Panics
    /// If there is none.
    pub fn with<R>(&'static self, look: impl FnOnce(&T) -> R) -> R {
        self.try_with(look)
            .unwrap_or_else(|missing| panic!("{missing}"))
    }

    /// Looks at the value in scope, if there is one. In an interrupt there is none.
    pub fn try_with<R>(&'static self, look: impl FnOnce(&T) -> R) -> Result<R, NotInScope> {
        let missing = NotInScope { name: self.name };
        if hal::irq::in_handler() {
            return Err(missing);
        }
        let (key, type_id) = (core::ptr::from_ref(self).cast(), TypeId::of::<T>());
        let mut next = context::current().locals().cast_const().cast::<Node>();
        // SAFETY: what is in the chain is there, by points 1 and 2 above.
        while let Some(node) = unsafe { next.as_ref() } {
            if node.key == key && node.type_id == type_id {
                // SAFETY: the same points; its type is as asked for, by point 3.
                return Ok(look(unsafe { node.value.cast::<T>().as_ref() }));
            }
            next = node.previous;
        }
        Err(missing)
    }

    /// A copy of the value in scope.
    ///
    /// # Panics
    /// If there is none.
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(|value| *value)
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalKey({})", self.name)
    }
}

/// One scope, while its inside runs.
struct Node {
    key: *const (),
    type_id: TypeId,
    value: NonNull<()>,
    previous: *const Node,
}

/// Takes the top node out of the chain.
struct Leave {
    previous: *mut (),
}

impl Drop for Leave {
    fn drop(&mut self) {
        context::current().set_locals(self.previous);
    }
}

/// Calls `inside` with a value in scope.
fn enter<T: 'static, R>(key: &'static LocalKey<T>, value: &T, inside: impl FnOnce() -> R) -> R {
    let context = context::current();
    let previous = context.locals();
    let node = Node {
        key: core::ptr::from_ref(key).cast(),
        type_id: TypeId::of::<T>(),
        value: NonNull::from(value).cast(),
        previous: previous.cast_const().cast(),
    };
    // Declared after the node, so dropped before it: the chain never leads to what is gone.
    let _leave = Leave { previous };
    context.set_locals(core::ptr::from_ref(&node).cast_mut().cast());
    inside()
}

/// Calls `inside` where no scope is seen: for a runtime's tasks, which have
/// nothing to do with who serves it.
pub(crate) fn without_locals<R>(inside: impl FnOnce() -> R) -> R {
    let context = context::current();
    let _leave = Leave {
        previous: context.locals(),
    };
    context.set_locals(core::ptr::null_mut());
    inside()
}

/// Future of [`LocalKey::scope`].
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct LocalScope<T: 'static, F> {
    key: &'static LocalKey<T>,
    value: T,
    /// Pinned with the whole. There until the scope is dropped.
    future: ManuallyDrop<F>,
}

impl<T: 'static, F: Future> Future for LocalScope<T, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: a part of what is pinned, and dropped where it is.
        let future = unsafe { Pin::new_unchecked(&mut *this.future) };
        enter(this.key, &this.value, || future.poll(context))
    }
}

impl<T: 'static, F> Drop for LocalScope<T, F> {
    fn drop(&mut self) {
        let Self { key, value, future } = self;
        // Its destructors see the value as its polls did.
        // SAFETY: dropped once, here, where it was pinned.
        enter(key, value, || unsafe { ManuallyDrop::drop(future) });
    }
}

// The value is never pinned, so only the future says whether it may be moved.
impl<T: 'static, F: Unpin> Unpin for LocalScope<T, F> {}

impl<T: 'static, F> fmt::Debug for LocalScope<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalScope({})", self.key.name)
    }
}
