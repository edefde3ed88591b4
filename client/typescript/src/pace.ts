/** A floor under the time of operations that read a private value. */

/**
 * Return what `work` returns, a whole multiple of `floorMs` after the call.
 *
 * The time of big-integer arithmetic depends a little on the value and on the draw. Whoever times a call
 * from elsewhere, such as another tab or the server, learns how many floors it took: one, if the floor
 * is longer than any release. It hides neither the processor's load nor the memory accesses, and nothing
 * from code in the same page. Errors are paced, too.
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
