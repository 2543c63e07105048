// A progress bar on standard error, on a terminal only.

const barCharacters = 30
const intervalMs = 100

export interface Progress {
  readonly show: (done: number, total: number) => void
  /** Removes the bar. */
  readonly end: () => void
}

/** @param what is counted: `messages compared` */
export function openProgress(what: string, stream: NodeJS.WriteStream = process.stderr): Progress {
  let shownMs = 0
  let shown = false
  return {
    show(done, total) {
      if (!stream.isTTY || total === 0 || performance.now() - shownMs < intervalMs) return
      shownMs = performance.now()
      shown = true
      const share = Math.min(1, done / total)
      const bar = '#'.repeat(Math.round(share * barCharacters)).padEnd(barCharacters, '-')
      stream.write(`\r[${bar}] ${Math.floor(share * 100)} %, ${done} of ${total} ${what}`)
    },
    end() {
      if (shown) stream.write('\r\u001b[K')
      shown = false
    },
  }
}
