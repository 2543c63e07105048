// A process for the test of signals: prints `ready`, and handles the first signal as its argument says.
//
//   node signals-process.ts drains|hangs <deadline in ms> <ms between two looks at the clock>

import { stopOnSignals } from '../../config/signals.ts'

const [behaviour, deadlineMs, stepMs] = process.argv.slice(2) as [string, string, string]
let nowMs = 0
performance.now = () => {
  nowMs += Number(stepMs)
  console.log(`it is ${nowMs}`)
  return nowMs
}
const stop = stopOnSignals({
  deadlineMs: Number(deadlineMs),
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
