/** A floor under the time of what looks at a private value. */

/**
 * What `work` returns, at a whole multiple of `floorMs` after the call.
 *
 * How long integers of any length take depends a little on the value and on the draw. Who can time a
 * call from elsewhere, another tab or the server, learns how many floors it took: one, if the floor
 * is above all that a release takes. It does not hide the load of the processor meanwhile, nor the
 * memory that is touched, nor anything from code in the same page. An error is paced as well.
 */
export async function paced<T>(work: () => T, floorMs: number): Promise<T> {
  const start = performance.now();
  let result: { value: T } | { error: unknown };
  try {
    result = { value: work() };
  } catch (error) {
    result = { error };
  }
  if (floorMs > 0) {
    const floors = Math.max(1, Math.ceil((performance.now() - start) / floorMs));
    const end = start + floors * floorMs;
    while (performance.now() < end) await new Promise((resolve) => setTimeout(resolve, end - performance.now()));
  }
  if ("error" in result) throw result.error;
  return result.value;
}
