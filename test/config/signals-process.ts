// A process for the test of signals: prints `ready`, and handles the first signal as its argument says.

import { stopOnSignals } from '../../config/signals.ts'

const [, , behaviour] = process.argv
const stop = stopOnSignals({
  deadlineMs: 3_000,
  onStop: signal => console.log(`stopping on ${signal}`),
  onDeadline: () => console.log('too slow'),
})
const alive = setInterval(() => {}, 1000)
stop.signal.addEventListener('abort', () => {
  if (behaviour !== 'drains') return
  clearInterval(alive)
  stop.dispose()
})
console.log('ready')
