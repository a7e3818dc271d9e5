//! Work that is done for several items at a time: for as many as there are processors.

use std::{num::NonZero, sync::Mutex, thread};

/// Does the work for each item, and returns the results in the order of the items.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let next = Mutex::new(items.iter().enumerate());
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some((index, item)) = next.lock().expect("no panic").next() else { return };
                    let result = work(item);
                    done.lock().expect("no panic").push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no panic");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_stand_in_the_order_of_what_they_are_of() {
        let doubled = super::in_parallel(&[1, 2, 3, 4, 5], |number| number * 2);
        assert_eq!(doubled, [2, 4, 6, 8, 10]);
    }
}
