//! Something is made for the cgroup that the tuner is on, and made anew for another: a cgroup may be
//! removed, and made again under its name.

/// Made for a cgroup, and kept while that is the one.
pub struct OfCgroup<T>(Option<(u64, T)>);

impl<T> Default for OfCgroup<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> OfCgroup<T> {
    /// Returns what is there for the cgroup of this number, made now where there is none.
    pub fn get<E>(
        &mut self,
        cgroup: u64,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<&mut T, E> {
        // What is for another one goes first: it is memory of the kernel's.
        let kept = self.0.take_if(|(of, _)| *of == cgroup);
        self.0 = None;
        let made = match kept {
            Some((_, kept)) => kept,
            None => make()?,
        };
        Ok(&mut self.0.insert((cgroup, made)).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_that_is_made_anew_is_another_one() {
        let mut kept = OfCgroup::default();
        let mut get = |cgroup, makes| kept.get(cgroup, || Ok::<_, ()>(makes)).copied();
        assert_eq!([get(7, "a"), get(7, "b")], [Ok("a"); 2]);
        assert_eq!([get(8, "c"), get(8, "d")], [Ok("c"); 2]);
        assert_eq!(kept.get(9, || Err("refused")), Err("refused"));
        assert_eq!(kept.get(9, || Ok::<_, ()>("e")).copied(), Ok("e"));
    }
}
