// Several clients that ask for one page at the same time are answered by one request to the store, and none by the answer to another request.

import { expect, test } from 'vitest'
import type { Access } from '../../../control-plane/client.ts'
import { channel, publishers, records } from '../../conformance/reader/fixture.ts'
import { access, options, owner, serve, thing, unused } from '../served.ts'

const ownerAccess: Access = { allowed: true, publisher: null, owner: 'user' }
const thingAccess: Access = { allowed: true, publisher: publishers[0], owner: 'user' }

interface Asker {
  readonly headers: Record<string, string>
  readonly query?: string
}

/** Asks all at once: it is known in one moment who they are. Their answers, and the publishers for which the store was asked. */
async function askTogether(askers: readonly Asker[], right: () => Access = () => ownerAccess) {
  const known = Promise.withResolvers<void>()
  const allAsk = Promise.withResolvers<void>()
  const read: (string | undefined)[] = []
  let asking = 0
  const served = await serve(
    {
      ...unused,
      read: ({ publisher }) => {
        read.push(publisher)
        return Promise.resolve(records.rows.filter(row => publisher === undefined || row.publisher === publisher).slice(0, 3))
      },
    },
    options,
    {
      ...access,
      authorize: async ({ credential }) => {
        if (++asking === askers.length) allAsk.resolve()
        await known.promise
        return credential.scheme === 'Thing' ? thingAccess : right()
      },
    },
  )
  const answers = askers.map(({ headers, query = '' }) => fetch(`${served.url}/channels/${channel}/messages${query}`, { headers }))
  await allAsk.promise
  known.resolve()
  const texts = await Promise.all(answers.map(async answer => [(await answer).status, await (await answer).text()] as const))
  await served.app.close()
  return { read, texts }
}

test('a page that three request is read once, and each is answered', async () => {
  const { read, texts } = await askTogether([{ headers: owner }, { headers: owner }, { headers: owner }])
  expect(read).toEqual([undefined])
  expect(texts[0]![1]).toContain('"messages":[{')
  expect(new Set(texts.map(String)).size).toBe(1)
})

test('a subtopic with slashes is the same request as one with dots', async () => {
  const spellings = ['bedroom/temperature', 'bedroom.temperature', 'bedroom%2Ftemperature']
  const { read, texts } = await askTogether(spellings.map(subtopic => ({ headers: owner, query: `?subtopic=${subtopic}` })))
  expect(read).toEqual([undefined])
  expect(new Set(texts.map(String)).size).toBe(1)
})

test("a thing never gets its owner's answer", async () => {
  const { read, texts } = await askTogether([{ headers: owner }, { headers: thing }, { headers: owner }])
  expect(new Set(read)).toEqual(new Set([publishers[0], undefined]))
  expect(read).toHaveLength(2)
  expect(texts[0]).toEqual(texts[2])
  const { messages } = JSON.parse(texts[1]![1]) as { messages: { Publisher: string }[] }
  expect(messages.map(({ Publisher }) => Publisher)).toEqual(messages.map(() => publishers[0]))
  expect(texts[1]).not.toEqual(texts[0])
})

test('another query, another format and another coding are different requests', async () => {
  const plain = { ...owner, 'accept-encoding': 'identity' }
  const { read, texts } = await askTogether([
    { headers: plain },
    { headers: plain, query: '?count=none' },
    { headers: { ...plain, accept: 'text/csv' } },
    { headers: { ...plain, accept: 'application/x-ndjson' } },
    { headers: { ...owner, 'accept-encoding': 'gzip' } },
  ])
  expect(read).toHaveLength(5)
  expect(texts.map(([status]) => status)).toEqual([200, 200, 200, 200, 200])
  // What is coded is decoded by the client.
  expect(new Set(texts.map(String)).size).toBe(4)
})

test('those who may not read are refused while others are answered', async () => {
  const rights: Access[] = [ownerAccess, { allowed: false, reason: 'forbidden' }]
  const { texts } = await askTogether([{ headers: owner }, { headers: owner }], () => rights.pop()!)
  expect(new Set(texts.map(([status]) => status))).toEqual(new Set([200, 403]))
})
