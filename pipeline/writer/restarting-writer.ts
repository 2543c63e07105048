// A writer that can be killed and starts again, like a process under a supervisor.

import type { Writer } from './writer.ts'

export interface RestartingWriter extends Writer {
  /** Ends the writer as a crash would, and opens the next one after a pause. Resolves when it has ended; does nothing until the next one is open. */
  kill(): Promise<void>
}

/** @param open opens a writer on the same log and store; one at a time */
export function openRestartingWriter(open: () => Writer, pauseMs = 2000): RestartingWriter {
  let current = open()
  let restart: NodeJS.Timeout | undefined
  let isKilled = false
  let isStopped = false
  const { started } = current
  const done = Promise.withResolvers<void>()
  // A caller that watches the state need not handle the promise as well.
  done.promise.catch(() => undefined)
  watch(current)

  function watch(writer: Writer): void {
    writer.done.then(
      () => isKilled || done.resolve(),
      (error: unknown) => done.reject(error),
    )
  }

  async function end(how: 'stop' | 'abort'): Promise<void> {
    isStopped = true
    clearTimeout(restart)
    await current[how]()
    done.resolve()
  }

  return {
    state: () => current.state(),
    failure: () => current.failure(),
    held: () => current.held(),
    counts: () => current.counts(),
    lost: (...of) => current.lost(...of),
    started,
    done: done.promise,
    stop: () => end('stop'),
    abort: () => end('abort'),
    async kill() {
      if (isKilled || isStopped || current.state() === 'failed') return
      isKilled = true
      await current.abort()
      if (isStopped) return
      restart = setTimeout(() => {
        isKilled = false
        current = open()
        watch(current)
      }, pauseMs)
    },
  }
}
