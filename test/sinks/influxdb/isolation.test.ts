// Every line that a server refuses is found, and no other: as a property, over servers that say more or less.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { ResponseError } from '../../../sinks/influxdb/errors.ts'
import { writeIsolating } from '../../../sinks/influxdb/isolation.ts'
import { noonUs } from '../batches.ts'
import { timestampOf } from './points.ts'

type Kind = 'good' | 'bad' | 'old'
type Says = 'newest' | 'nothing'

/** Old ones lie in 1970. */
function nsIn(kinds: readonly Kind[]): (line: number) => bigint {
  return line => BigInt(line) + (kinds[line] === 'old' ? 0n : BigInt(noonUs) * 1000n)
}

const partial = (said: string): ResponseError =>
  new ResponseError(
    'POST',
    422,
    JSON.stringify({ code: 'unprocessable entity', message: `failure writing points to database: partial write: ${said}` }),
  )

/** In the words of influxd 2.7. */
const tooOld = (count: number, newestNs: bigint): string => {
  const bound = 'dropped because it violates a Retention Policy Lower Bound at 2026-09-23T19:25:41.269758126Z'
  const points = `oldest point typed,channel=c at 2026-08-12T19:25:41.266Z ${bound}, newest point typed,channel=c at ${timestampOf(newestNs)} ${bound}`
  const dropped = `dropped=${count} for database: 68c7fb394d53d2e6 for retention policy: autogen`
  return `dropped ${count} points outside retention policy of duration 1440h0m0s - ${points} ${dropped}`
}

/** Stores good lines, and drops the rest: old ones for their age, bad ones for another reason. In `shards` shards, each of which counts for itself. */
function serverOf(kinds: readonly Kind[], says: Says, shards: number) {
  const stored = new Set<number>()
  const bodies: number[][] = []
  async function post(selection: readonly number[]): Promise<void> {
    bodies.push([...selection])
    const refused = selection.filter(line => kinds[line] !== 'good')
    for (const line of selection) if (kinds[line] === 'good') stored.add(line)
    if (refused.length === 0) return
    const shardLines = refused.filter(line => line % shards === refused[0]! % shards)
    if (kinds[refused[0]!] === 'old' && says === 'newest')
      throw partial(tooOld(shardLines.length, BigInt(shardLines.filter(line => kinds[line] === 'old').at(-1)!)))
    throw partial(`points beyond dropped=${shardLines.length}`)
  }
  return { post, stored, bodies }
}

const kinds = fc.array(fc.constantFrom<Kind>('good', 'good', 'good', 'bad', 'old'), { maxLength: 40 })

test('every refused line is found, and all other lines are durable', async () => {
  await fc.assert(
    fc.asyncProperty(kinds, fc.constantFrom<Says>('newest', 'nothing'), fc.integer({ min: 1, max: 3 }), async (given, says, shards) => {
      const server = serverOf(given, says, shards)
      const found = await writeIsolating([...given.keys()], server.post, nsIn(given))
      const culprits = [...given.keys()].filter(line => given[line] !== 'good')
      expect(found.map(({ line }) => line)).toEqual(culprits)
      // Each was in a body of which nothing was dropped.
      const clean = new Set(server.bodies.filter(body => body.every(line => given[line] === 'good')).flat())
      expect(clean).toEqual(new Set([...given.keys()].filter(line => given[line] === 'good')))
    }),
  )
})

test('one refused line among thousands takes two requests for each halving', async () => {
  const given = Array.from({ length: 4096 }, (_, line): Kind => (line === 3210 ? 'bad' : 'good'))
  const server = serverOf(given, 'nothing', 1)
  expect((await writeIsolating([...given.keys()], server.post, nsIn(given))).map(({ line }) => line)).toEqual([3210])
  expect(server.bodies).toHaveLength(1 + 2 * 12)
})

test.each<[string, (line: number) => Kind, number]>([
  ['all of them', () => 'old', 1],
  ['among others', line => (line % 2 === 0 ? 'old' : 'good'), 2],
])("lines that are too old, %s, are recognized by the server's message", async (_which, kindOf, requests) => {
  const given = Array.from({ length: 5000 }, (_, line) => kindOf(line))
  const server = serverOf(given, 'newest', 1)
  const found = await writeIsolating([...given.keys()], server.post, nsIn(given))
  expect(found.map(({ line }) => line)).toEqual([...given.keys()].filter(line => given[line] === 'old'))
  expect(server.bodies).toHaveLength(requests)
})

test.each(['dropped=1000', 'dropped=1000 for ', 'dropped=1000 for database: 1 for retention policy: autogen'])(
  'a field that a device calls "%s" does not reject the lines of others',
  async field => {
    const post = async (selection: readonly number[]): Promise<void> => {
      if (!selection.includes(1)) return
      throw partial(
        `field type conflict: input field "${field}" on measurement "typed" is type string, already exists as type float dropped=1`,
      )
    }
    expect((await writeIsolating([0, 1, 2], post, BigInt)).map(({ line }) => line)).toEqual([1])
  },
)

test('a refusal that counts no line as dropped is one of at least one line', async () => {
  const post = () => Promise.reject(partial('another reason dropped=0'))
  expect((await writeIsolating([0, 1], post, BigInt)).map(({ line }) => line)).toEqual([0, 1])
})

test('an error that is not about the lines is thrown', async () => {
  const away = new ResponseError('POST', 503, '')
  await expect(writeIsolating([0, 1], () => Promise.reject(away), BigInt)).rejects.toBe(away)
})
