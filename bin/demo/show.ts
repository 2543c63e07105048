// The demonstration: load, a message that cannot be decoded, a kill -9, and whether all that was acknowledged is stored once.

import { setTimeout as wait } from 'node:timers/promises'
import { type Fleet, openFleet } from './fleet.ts'
import type { OwnPlatform } from './own-platform.ts'
import { chart, type Screen } from './screen.ts'

const tickMs = 500
/** For partitions behind that of the last message; a platform of its own has one partition. */
const storedMsMax = 30_000

/** @param own what is killed; undefined for a platform that nothing may disturb @returns whether every promise was kept */
export async function show(url: string, user: { authorization: string }, own: OwnPlatform | undefined, seconds: number, screen: Screen) {
  const fleet = await openFleet(url, user)
  const ticks: Tick[] = [{ atMs: performance.now(), published: 0, stored: 0 }]
  const tell = (event: string): void => screen.say(`${secondsSince(ticks[0]!.atMs).padStart(5)} s  ${event}`)
  tell(`devices publish to ${url}`)
  const stop = new AbortController()
  let [awaySeconds, dead] = ['', 0]

  async function watch(): Promise<void> {
    while (!stop.signal.aborted) {
      await wait(tickMs)
      // There is no answer while the platform is away.
      const stored = await fleet.count().catch(() => ticks.at(-1)!.stored)
      ticks.push({ atMs: performance.now(), published: fleet.acknowledgedMs.length, stored })
      const block = blockOf(fleet, ticks, dead)
      if (screen.isLive) screen.draw(block)
      else if (ticks.length % 4 === 0) tell(block.slice(2).join('; '))
    }
  }

  async function disturb(platform: OwnPlatform): Promise<void> {
    await wait(seconds * 250)
    await fleet.publishPoison()
    const deadlineMs = performance.now() + storedMsMax
    let [letter] = await fleet.deadLetters()
    while (letter === undefined && performance.now() < deadlineMs) [letter] = await fleet.deadLetters()
    // Without one a promise is broken, which is said at the end.
    if (letter !== undefined) tell(`a message that cannot be decoded is dead letter ${letter.id}: ${letter.reason} (rule ${letter.rule})`)
    dead = letter === undefined ? 0 : 1
    await wait(seconds * 250)
    const killedMs = performance.now()
    await platform.kill()
    tell('kill -9: the platform is gone, and the devices continue')
    await platform.start()
    awaySeconds = secondsSince(killedMs)
    tell(`up again after ${awaySeconds} s, on the same folder`)
    await wait(seconds * 500)
  }

  const working = [fleet.publish(stop.signal), watch()]
  // Before the end these end only with an error.
  await Promise.race([...working, own === undefined ? wait(seconds * 1000) : disturb(own)])
  stop.abort()
  await Promise.all(working)
  await fleet.publishAndRead()
  screen.draw([])
  for (const line of blockOf(fleet, ticks, dead)) screen.say(line)

  const deadlineMs = performance.now() + (own === undefined ? storedMsMax : 0)
  let found = await fleet.compare()
  while (found.missing > 0 && performance.now() < deadlineMs) found = await fleet.compare()
  const { missing, excess, again } = found
  const acknowledged = grouped(fleet.acknowledgedMs.length)
  const promises: [boolean, string][] = [
    [missing + excess === 0, `${acknowledged} acknowledged messages are read back, each once: ${missing} missing, ${excess} too many`],
  ]
  if (own !== undefined) {
    const { holds, printed } = own.verify(user)
    screen.say(`\n./sluice verify relational --contents\n${printed}\n`)
    promises.push(
      [holds, 'verify: each message of the log is in the store once, with every column, or is a dead letter'],
      [(await fleet.deadLetters()).length === 1, 'the message that cannot be decoded is kept, with the rule that it breaks'],
    )
    screen.say(`up again ${awaySeconds} s after kill -9: ${fleet.sentAgain()} messages were sent again, ${again} of which had arrived\n`)
  }
  for (const [isKept, promise] of promises) screen.say(`${isKept ? 'holds ' : 'BROKEN'}  ${promise}`)
  return promises.every(([isKept]) => isKept)
}

type Tick = Readonly<Record<'atMs' | 'published' | 'stored', number>>

const grouped = (number: number): string => Math.ceil(number).toLocaleString('en')
const secondsSince = (ms: number): string => ((performance.now() - ms) / 1000).toFixed(1)

function blockOf({ acknowledgedMs, readableMs, sentAgain }: Fleet, ticks: readonly Tick[], dead: number): string[] {
  const ratesOf = (what: 'published' | 'stored'): number[] =>
    ticks.slice(1).map((tick, at) => ((tick[what] - ticks[at]![what]) / (tick.atMs - ticks[at]!.atMs)) * 1000)
  const rates = { published: ratesOf('published'), stored: ratesOf('stored') }
  const charts = Object.entries(rates).map(([what, own]) => {
    const bars = chart(own.slice(-40), Math.max(...rates.published, ...rates.stored))
    return `${what.padEnd(10)} ${bars.padEnd(40)} ${grouped(own.at(-1)!).padStart(6)}/s`
  })
  const times = (measuredMs: readonly number[]): string => {
    const sorted = measuredMs.toSorted((one, other) => one - other)
    const at = (part: number): string => `${grouped(sorted[Math.floor((sorted.length - 1) * part)] ?? 0)} ms`
    return `p50 ${at(0.5)}, p99 ${at(0.99)}, longest ${at(1)}`
  }
  return [
    ...charts,
    `${grouped(acknowledgedMs.length)} acknowledged, ${grouped(ticks.at(-1)!.stored)} stored, ${dead} dead letters, ${sentAgain()} sent again`,
    `acknowledged in ${times(acknowledgedMs)}`,
    `readable in ${times(readableMs)}`,
  ]
}
