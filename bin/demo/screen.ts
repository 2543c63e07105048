// Lines that stay and, on a terminal, a block below them that is drawn again and again.

export type Screen = ReturnType<typeof openScreen>

const bars = ' ▁▂▃▄▅▆▇█'

/** A bar for each number, as high as its part of the highest. */
export function chart(numbers: readonly number[], highest: number): string {
  return numbers.map(number => bars[Math.ceil((number / Math.max(1, highest)) * (bars.length - 1))]).join('')
}

/** @param stream `columns` is absent unless it is a terminal */
export function openScreen(stream: { readonly columns?: number; write(text: string): unknown }) {
  const { columns } = stream
  let drawn: readonly string[] = []
  function write(text: string, block: readonly string[]): void {
    const erased = drawn.length === 0 ? '' : `\u001b[${drawn.length}A\u001b[J`
    // A line that wraps would be two.
    stream.write(erased + text + block.map(line => `${line.slice(0, (columns ?? 80) - 1)}\n`).join(''))
    drawn = block
  }
  return {
    isLive: columns !== undefined,
    say: (line: string) => write(`${line}\n`, drawn),
    draw: (block: readonly string[]) => write('', block),
  }
}
