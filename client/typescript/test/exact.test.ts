import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { LazyUniform } from "../src/exact/bits.js";
import { exp, expm1, integerRoot, log, log1p, sqrt, turn } from "../src/exact/elementary.js";
import { constant, Interval, withPrecision } from "../src/exact/interval.js";
import { bitLength, nextDown, nextUp, Rational } from "../src/exact/rational.js";
import { releaseIntegers } from "../src/exact/release.js";

const finite = fc.double({ noNaN: true, noDefaultInfinity: true });
const moderate = fc.double({ noNaN: true, min: -600, max: 600 });
const positive = fc.double({ noNaN: true, min: 1e-300, max: 1e300 });

/** Whether an interval is thin, and holds a number to the few last places that Math errs by. */
function holds(x: Interval, near: number, slack = 4e-16): void {
  const [low, high] = x.ends();
  assert.ok(low.compare(high) <= 0);
  const room = Rational.from(Math.abs(near) * slack + 1e-300);
  assert.ok(low.sub(room).compare(Rational.from(near)) <= 0, `${near} is below ${low.toNumber()}`);
  assert.ok(high.add(room).compare(Rational.from(near)) >= 0, `${near} is above ${high.toNumber()}`);
  assert.ok(high.sub(low).compare(Rational.from(Math.abs(near) * 1e-20 + 1e-40)) <= 0, "too wide");
}

test("doubles and fractions are turned into each other exactly", () => {
  fc.assert(fc.property(finite, (x) => Rational.from(x).toNumber() === x || (x === 0 && Rational.from(x).toNumber() === 0)));
  fc.assert(
    fc.property(fc.bigInt(), fc.bigInt({ min: 1n }), (n, d) => {
      const ratio = Rational.of(n, d);
      const [down, up] = [ratio.roundDown(), ratio.roundUp()];
      if (!Number.isFinite(up) || !Number.isFinite(down)) return;
      assert.ok(Rational.from(down).compare(ratio) <= 0 && Rational.from(up).compare(ratio) >= 0);
      assert.ok(down === up || nextUp(down) === up);
      assert.ok(ratio.toNumber() === down || ratio.toNumber() === up);
    }),
  );
  fc.assert(fc.property(finite, (x) => x === 0 || nextDown(nextUp(x)) === x));
});

test("a quotient is rounded to the nearest double, halves to the even one", () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 1n << 52n, max: (1n << 53n) - 1n }), (m) => {
      const half = Rational.of(2n * m + 1n, 2n);
      const even = m % 2n === 0n ? m : m + 1n;
      assert.equal(half.toNumber(), Number(even));
    }),
  );
  assert.equal(Rational.of(1n, 3n).toNumber(), 1 / 3);
  assert.equal(Rational.from(Number.MIN_VALUE).div(Rational.of(2n)).toNumber(), 0);
  assert.equal(Rational.from(Number.MIN_VALUE).mul(Rational.of(3n, 2n)).toNumber(), 2 * Number.MIN_VALUE);
});

test("bits are counted and roots are whole", () => {
  fc.assert(fc.property(fc.bigInt({ min: 0n, max: 1n << 2000n }), (x) => bitLength(x) === (x ? x.toString(2).length : 0)));
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 1n << 500n }), (x) => {
      const root = integerRoot(x);
      return root * root <= x && (root + 1n) * (root + 1n) > x;
    }),
  );
});

test("arithmetic encloses that of fractions", () => {
  const interval = fc.tuple(fc.bigInt(), fc.bigInt(), fc.integer({ min: -300, max: 300 })).map(([a, b, e]) => {
    const [low, high] = a < b ? [a, b] : [b, a];
    return withPrecision(96, () => Interval.of(low, high, e));
  });
  const within = (x: Rational, y: Interval): boolean => {
    const [low, high] = y.ends();
    return low.compare(x) <= 0 && high.compare(x) >= 0;
  };
  fc.assert(
    fc.property(interval, interval, (x, y) =>
      withPrecision(64, () => {
        for (const a of x.ends()) {
          for (const b of y.ends()) {
            assert.ok(within(a.add(b), x.add(y)));
            assert.ok(within(a.sub(b), x.sub(y)));
            assert.ok(within(a.mul(b), x.mul(y)));
            assert.ok(within(a.min(b), x.min(y)) && within(a.max(b), x.max(y)));
            const quotient = x.div(y);
            if (quotient.known) assert.ok(within(a.div(b), quotient));
          }
          assert.ok(within(a.mul(a), x.square()));
          assert.ok(within(a, x.union(y)));
        }
      }),
    ),
  );
});

test("functions enclose those of the platform, to its own error", () => {
  fc.assert(fc.property(positive, (x) => holds(log(constant(x)), Math.log(x))));
  fc.assert(fc.property(moderate, (x) => holds(exp(constant(x)), Math.exp(x))));
  fc.assert(fc.property(positive, (x) => holds(sqrt(constant(x)), Math.sqrt(x))));
  fc.assert(fc.property(fc.double({ noNaN: true, min: -1e-3, max: 1e-3 }), (x) => holds(expm1(constant(x)), Math.expm1(x))));
  fc.assert(fc.property(fc.double({ noNaN: true, min: -1e-3, max: 1e-3 }), (x) => holds(log1p(constant(x)), Math.log1p(x))));
});

test("a turn lies on the circle, where it should", () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, min: 0, max: 1 }), (u) => {
      const [c, s] = turn(constant(u));
      holds(c.square().add(s.square()), 1, 1e-30);
      for (const [part, near] of [[c, Math.cos(2 * Math.PI * u)], [s, Math.sin(2 * Math.PI * u)]] as const) {
        assert.ok(Math.abs(part.ends()[0].toNumber() - near) < 2e-15);
      }
    }),
  );
});

test("more bits make no other integer, and are drawn only where they must be", () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: (1n << 192n) - 1n }), (bits) => {
      let left = 192;
      const source = {
        bits: (count: number): bigint => {
          left -= count;
          assert.ok(left >= 0, "too many bits are drawn");
          return (bits >> BigInt(left)) & ((1n << BigInt(count)) - 1n);
        },
      };
      const uniform = new LazyUniform(source);
      const [few] = releaseIntegers([uniform], ([u]) => [u!.mul(constant(1000n))], 0);
      const exact = Rational.of(bits * 1000n, 1n << 192n).add(Rational.of(1n, 2n));
      assert.equal(few, exact.n / exact.d);
    }),
  );
});
