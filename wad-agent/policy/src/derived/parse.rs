//! Parses text into an expression: numbers, names, `+ - * /`, parentheses, `min`,
//! `max` and `rate`. By precedence climbing; bounded in length and depth.

use std::ops::Range;

use super::{
    Mistake,
    expression::{Binary, Expression, Operation, Step},
};

/// Longest text.
pub const MAX_BYTES: usize = 1_000;
/// Most parentheses, functions and signs in one another.
const MAX_DEPTH: usize = 50;

const FUNCTIONS: [&str; 3] = ["min", "max", "rate"];

/// The strength with which a sign binds: a product before a sum, a sign of a number
/// before both.
const SUM: u8 = 1;
const PRODUCT: u8 = 2;
const SIGN: u8 = 3;

/// `find` has the names that an expression may use.
pub fn parse(
    text: &str,
    find: impl Fn(&str) -> Result<Operation, (String, Option<String>)>,
) -> Result<Expression, Mistake> {
    if text.len() > MAX_BYTES {
        let label = format!("at most {MAX_BYTES} bytes");
        return Err(Mistake::new(0..text.len(), format!("{} bytes long", text.len()), label));
    }
    let mut parser = Parser { text, end: 0, depth: 0, is_in_rate: false, steps: Vec::new(), find };
    parser.expression(SUM)?;
    match parser.next()? {
        (Token::End, _) => Ok(Expression { steps: parser.steps }),
        (_, at) => Err(unexpected(at, "an operator or the end")),
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'t> {
    Number(f64),
    Name(&'t str),
    Sign(char),
    End,
}

struct Parser<'t, F> {
    text: &'t str,
    /// End of what has been read.
    end: usize,
    depth: usize,
    is_in_rate: bool,
    steps: Vec<Step>,
    find: F,
}

impl<'t, F: Fn(&str) -> Result<Operation, (String, Option<String>)>> Parser<'t, F> {
    /// An operand, and the operators behind it that bind at least so strongly.
    fn expression(&mut self, least: u8) -> Result<(), Mistake> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let at = self.end.saturating_sub(1)..self.end;
            let label = format!("at most {MAX_DEPTH} deep");
            let mistake = Mistake::new(at, "too many parentheses in one another", label);
            return Err(mistake.help("give a part of it a name, as a derived event above"));
        }
        self.operand()?;
        loop {
            let before = self.end;
            let (token, at) = self.next()?;
            let (binds, binary) = match token {
                Token::Sign('+') => (SUM, Binary::Add),
                Token::Sign('-') => (SUM, Binary::Subtract),
                Token::Sign('*') => (PRODUCT, Binary::Multiply),
                Token::Sign('/') => (PRODUCT, Binary::Divide),
                _ => (0, Binary::Add),
            };
            if binds < least {
                self.end = before;
                self.depth -= 1;
                return Ok(());
            }
            self.expression(binds + 1)?;
            self.push(Operation::Binary(binary), at);
        }
    }

    fn operand(&mut self) -> Result<(), Mistake> {
        let (token, at) = self.next()?;
        match token {
            Token::Number(number) => self.push(Operation::Number(number), at),
            Token::Name(name) if self.take('(')? => self.function(name, at)?,
            Token::Name(name) => {
                let found = (self.find)(name).map_err(|(label, help)| {
                    let mistake = Mistake::new(at.clone(), "a name that is not known", label);
                    Mistake { help, ..mistake }
                })?;
                self.push(found, at);
            }
            Token::Sign('(') => {
                self.expression(SUM)?;
                self.expect(')', &at)?;
            }
            Token::Sign('-') => {
                self.expression(SIGN)?;
                self.push(Operation::Negate, at);
            }
            Token::Sign(_) | Token::End => {
                return Err(unexpected(at, "a number, a name or a parenthesis"));
            }
        }
        Ok(())
    }

    /// Behind its opening parenthesis.
    fn function(&mut self, name: &str, at: Range<usize>) -> Result<(), Mistake> {
        let binary = match name {
            "rate" => return self.rate(at),
            "min" => Binary::Min,
            "max" => Binary::Max,
            _ => {
                let label = format!("there are {}", FUNCTIONS.join(", "));
                return Err(Mistake::new(at, "a function that is not known", label));
            }
        };
        self.expression(SUM)?;
        let mut is_alone = true;
        while self.take(',')? {
            self.expression(SUM)?;
            self.push(Operation::Binary(binary), at.clone());
            is_alone = false;
        }
        self.expect(')', &at)?;
        if is_alone {
            return Err(Mistake::new(at, "nothing to compare with", "it takes two or more"));
        }
        Ok(())
    }

    fn rate(&mut self, at: Range<usize>) -> Result<(), Mistake> {
        if std::mem::replace(&mut self.is_in_rate, true) {
            let mistake = Mistake::new(at, "a rate within a rate", "two readings have one change");
            return Err(mistake.help("give the inner one a name, as a derived event above"));
        }
        let from = self.steps.len();
        self.expression(SUM)?;
        self.expect(')', &at)?;
        self.is_in_rate = false;
        self.push(Operation::Rate { from }, at);
        Ok(())
    }

    fn push(&mut self, operation: Operation, at: Range<usize>) {
        self.steps.push(Step { operation, at });
    }

    /// Whether that comes next; then it is read.
    fn take(&mut self, sign: char) -> Result<bool, Mistake> {
        let before = self.end;
        let is_next = self.next()?.0 == Token::Sign(sign);
        if !is_next {
            self.end = before;
        }
        Ok(is_next)
    }

    /// Closes what was opened there.
    fn expect(&mut self, sign: char, opened: &Range<usize>) -> Result<(), Mistake> {
        let (token, at) = self.next()?;
        match token {
            Token::Sign(found) if found == sign => Ok(()),
            Token::End => Err(Mistake::new(opened.clone(), "a parenthesis too few", "opened here")),
            _ => Err(unexpected(at, "an operator or a parenthesis")),
        }
    }

    fn next(&mut self) -> Result<(Token<'t>, Range<usize>), Mistake> {
        let rest = self.text[self.end..].trim_start();
        let start = self.text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            self.end = start;
            // Where something is missing, the last character is shown.
            return Ok((Token::End, self.text.trim_end().len().saturating_sub(1)..start));
        };
        // Members of arrays are fields, too: tcp_sock.chrono_stat[2].
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '[' | ']');
        let (token, length) = match first {
            '0'..='9' | '.' => {
                let length = number_length(rest);
                // Too large a number is infinite.
                let number = rest[..length].parse().ok().filter(|number: &f64| number.is_finite());
                let at = start..start + length;
                let label = "as 8, 1.5 or 1e9";
                let number = number.ok_or_else(|| Mistake::new(at, "this is no number", label))?;
                (Token::Number(number), length)
            }
            'a'..='z' | 'A'..='Z' | '_' => {
                let length = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
                (Token::Name(&rest[..length]), length)
            }
            '+' | '-' | '*' | '/' | '(' | ')' | ',' => (Token::Sign(first), 1),
            _ => {
                let at = start..start + first.len_utf8();
                let label = "it takes names, numbers, + - * / ( ) and ,";
                return Err(Mistake::new(at, "a character that has no meaning here", label));
            }
        };
        self.end = start + length;
        Ok((token, start..self.end))
    }
}

/// Digits, a point, and a power of ten, whose sign belongs to it.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        from + bytes[from..].iter().take_while(|byte| is_digit(byte)).count()
    };
    let end = digits(0);
    if !matches!(bytes.get(end), Some(b'e' | b'E')) {
        return end;
    }
    digits(end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-'))))
}

fn unexpected(at: Range<usize>, wanted: &str) -> Mistake {
    Mistake::new(at, "this cannot be worked out", format!("{wanted} is expected here"))
}
