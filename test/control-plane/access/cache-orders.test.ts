// The cache of grants in any order of requests, answers and changes, against a model of three lines.

import { type Arbitrary, array, assert, asyncProperty, constant, constantFrom, nat, oneof, record } from 'fast-check'
import { expect, test } from 'vitest'
import { cacheAccess } from '../../../control-plane/access/cache.ts'
import type { Access, AccessChange, AccessRequest } from '../../../control-plane/client.ts'
import { openAccess, publishWith } from '../asked-access.ts'

test('in any order of requests, answers and changes, only grants that no change since their request concerns are used', async () => {
  const pick = <Value>(...values: Value[]): Arbitrary<Value> => constantFrom(...values)
  const asking = record({ step: constant('ask' as const), secret: pick('thing-1', 'thing-2'), channel: pick('one', 'two') })
  const answering = record({ step: constant('answer' as const), nth: nat(5) })
  const changing = record({
    step: constant('change' as const),
    change: oneof(
      record({ kind: constant('disconnected' as const), thing: pick('thing-1', 'thing-2'), channel: pick('one', 'two') }),
      record({ kind: constant('thing' as const), thing: pick('thing-1', 'thing-2') }),
      record({ kind: constant('channel' as const), channel: pick('one', 'two') }),
      record({ kind: constant('user' as const), user: pick('owner of thing-1', 'owner of thing-2') }),
      constant({ kind: 'unheard' as const }),
    ),
  })
  const ends = (change: AccessChange, thing: string, channel: string): boolean =>
    change.kind === 'unheard' ||
    (change.kind === 'disconnected' && change.thing === thing && change.channel === channel) ||
    (change.kind === 'thing' && change.thing === thing) ||
    (change.kind === 'channel' && change.channel === channel) ||
    (change.kind === 'user' && change.user === `owner of ${thing}`)

  await assert(
    asyncProperty(array(oneof(asking, answering, changing), { maxLength: 30 }), async steps => {
      const waiting: { request: AccessRequest; fresh: boolean; answer: PromiseWithResolvers<Access> }[] = []
      const access = openAccess(request => {
        const answer = Promise.withResolvers<Access>()
        waiting.push({ request, fresh: true, answer })
        return answer.promise
      })
      const cached = cacheAccess(access.control, { lifetimeMs: 600_000, entriesMax: 100 })
      const usable = new Set<string>()
      for (const step of steps) {
        if (step.step === 'ask') {
          const before = access.asked.length
          const isUnderWay = waiting.some(({ request }) => request.credential.secret === step.secret && request.channel === step.channel)
          void cached.authorize(publishWith(step.secret, step.channel))
          const asked = access.asked.length > before
          if (usable.has(`${step.secret} ${step.channel}`)) expect(asked).toBe(false)
          else if (!isUnderWay) expect(asked).toBe(true)
        } else if (step.step === 'answer') {
          const [lookup] = waiting.splice(step.nth, 1)
          if (lookup === undefined) continue
          const { secret } = lookup.request.credential
          lookup.answer.resolve({ allowed: true, publisher: secret, owner: `owner of ${secret}` })
          if (lookup.fresh) usable.add(`${secret} ${lookup.request.channel}`)
          await new Promise(resolve => setImmediate(resolve))
        } else {
          access.change(step.change)
          for (const lookup of waiting) {
            if (ends(step.change, lookup.request.credential.secret, lookup.request.channel)) lookup.fresh = false
          }
          for (const grant of usable) {
            const [thing, channel] = grant.split(' ') as [string, string]
            if (ends(step.change, thing, channel)) usable.delete(grant)
          }
        }
      }
    }),
    { numRuns: 300 },
  )
})
