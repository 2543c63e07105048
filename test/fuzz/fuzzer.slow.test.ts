// The fuzzer itself: the same seed makes the same inputs, what fails is found, shortened and told, and each kind does what it is for.

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { DecodeError } from '../../transformers/decode-error.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { fuzz, inputOf } from './fuzzer.ts'
import { type Format, openTransformers } from './hostile.ts'
import type { Kind } from './kind.ts'
import { kinds, kindsNamed } from './kinds.ts'
import { envelope, origin } from './properties/slate.ts'
import { openProperties } from './properties.ts'
import type { Property } from './property.ts'
import { openRandom } from './random.ts'
import { failureText } from './report.ts'
import { shrink } from './shrink.ts'

const seed = 1
const quick = kinds.filter(({ bytes }) => bytes === undefined)

/** A fuzzer with one property, for every target. */
function withProperty(property: Property): ReturnType<typeof openProperties> {
  const targets = ['any', 'senml-json', 'senml-cbor', 'json', 'flatten', 'unflatten'] as const
  return Object.fromEntries(targets.map(target => [target, [property]])) as unknown as ReturnType<typeof openProperties>
}

describe('inputs', () => {
  test.each(kinds.map(kind => [kind.name, kind] as const))(
    '%s: the same seed and number make the same one, others another',
    (_name, kind) => {
      const at = (seed: number, ordinal: number): string =>
        Buffer.from(kind.make(openRandom(seed, kind.name, ordinal), 300)).toString('hex')
      expect(at(seed, 5)).toBe(at(seed, 5))
      const others = new Set(Array.from({ length: 40 }, (_, ordinal) => at(seed + (ordinal % 2), ordinal)))
      expect(others.size).toBeGreaterThan(15)
    },
  )

  test.each(kinds.map(kind => [kind.name, kind] as const))('%s: none is longer than is asked for, and one comes near it', (_name, kind) => {
    const lengths = Array.from({ length: 60 }, (_, ordinal) => kind.make(openRandom(seed, kind.name, ordinal), 4096).length)
    expect(Math.max(...lengths)).toBeLessThanOrEqual(4096)
    expect(Math.max(...lengths)).toBeGreaterThan(2048)
  })

  test.each(kinds.filter(isOfOneFormat).map(kind => [kind.name, kind] as const))(
    '%s: some are refused, and not all at the first byte',
    (_name, kind) => {
      const transformer = openTransformers()[kind.target as Format]
      const rules = new Set<string>()
      for (let ordinal = 0; ordinal < 300; ordinal++) {
        const batch = new RecordBatch()
        batch.beginMessage(origin)
        try {
          transformer.decode(kind.make(openRandom(seed, kind.name, ordinal), 300), envelope, batch)
          rules.add('taken')
        } catch (error) {
          rules.add((error as DecodeError).rule)
        }
      }
      expect(rules.size).toBeGreaterThan(2)
    },
  )

  test.each(['senml-json-packs', 'senml-cbor-packs', 'json-documents'])('%s: most are right', name => {
    const [kind] = kindsNamed(name)
    const transformer = openTransformers()[kind!.target as Format]
    let taken = 0
    for (let ordinal = 0; ordinal < 200; ordinal++) {
      const batch = new RecordBatch()
      batch.beginMessage(origin)
      try {
        transformer.decode(kind!.make(openRandom(seed, name, ordinal), 300), envelope, batch)
        taken++
      } catch (error) {
        expect(error).toBeInstanceOf(DecodeError)
      }
    }
    expect(taken).toBeGreaterThan(130)
  })
})

function isOfOneFormat({ target, bytes }: Kind): boolean {
  return bytes === undefined && (target === 'senml-json' || target === 'senml-cbor' || target === 'json')
}

describe('a run', () => {
  test('makes each kind in turn, as many cases as asked for', () => {
    const { cases, failure } = fuzz({ seed, kinds: quick, casesMax: 3 * quick.length })
    expect(failure).toBeUndefined()
    expect([...cases.values()].every(count => count === 3)).toBe(true)
  })

  test('ends with the first failure, whose case alone fails again and is shortened', () => {
    const property: Property = {
      name: 'no byte is a closing brace',
      holds: input => {
        if (input.includes(0x7d)) throw new TypeError('there is one')
      },
    }
    const chosen = kindsNamed('json-documents')
    const { failure, cases } = fuzz({ seed, kinds: chosen, casesMax: 1000, properties: withProperty(property) })
    expect(failure).toMatchObject({ seed, property: property.name })
    expect(cases.get('json-documents')).toBe(failure!.case.ordinal + 1)
    expect(Buffer.from(inputOf(seed, failure!.case)).equals(failure!.input)).toBe(true)
    const again = fuzz({ seed, kinds: chosen, ordinal: failure!.case.ordinal, casesMax: 10, properties: withProperty(property) })
    expect([again.failure?.case.ordinal, again.cases.get('json-documents')]).toEqual([failure!.case.ordinal, 1])
    const text = failureText(failure!)
    expect(text).toContain(`npm run fuzz -- --seed ${seed} --kind json-documents --case ${failure!.case.ordinal}`)
    expect(text).toContain(Buffer.from(failure!.input).toString('base64'))
    expect(text).toContain('TypeError: there is one')
  })

  test('a case that fails only after others is told from one that fails alone', () => {
    let asked = 0
    const property: Property = {
      name: 'it is asked for no more than three times',
      holds: () => {
        if (++asked === 4) throw new Error('asked too often')
      },
    }
    const { failure } = fuzz({ seed, kinds: quick, casesMax: 100, properties: withProperty(property) })
    expect(failure?.shortest).toBeUndefined()
    expect(failureText(failure!)).toContain('not fail by itself')
  })
})

test('what fails is shortened to what it takes', () => {
  const input = Buffer.from('a long input with a ( and, further on, a ) in it')
  const shortest = shrink(input, candidate => /\(.*\)/.test(Buffer.from(candidate).toString()))
  expect(Buffer.from(shortest).toString()).toBe('()')
})

test('every target has properties of different names', () => {
  for (const properties of Object.values(openProperties())) {
    const names = properties.map(({ name }) => name)
    expect(names.length).toBeGreaterThan(0)
    expect(new Set(names.slice(0, 4)).size).toBe(Math.min(names.length, 4))
  }
})

describe('the command', () => {
  const run = (...flags: string[]): { status: number | null; stdout: string; stderr: string } =>
    spawnSync(process.execPath, [fileURLToPath(new URL('run.ts', import.meta.url)), ...flags], {
      encoding: 'utf8',
      env: { ...process.env, FUZZ_SEED: '77' },
    })

  test('prints seed, cases of each kind and cases in a second, and no progress where there is no terminal', () => {
    const { status, stdout, stderr } = run('--cases', '70', '--kind', 'json-documents')
    expect([status, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(/^seed 77\n {2}json-documents +70\nseed 77: 70 cases in [\d.]+ s, [\d,]+\/s\n$/)
  })

  test('a kind that is none, and a number that is none, end with exit code 2 and the usage', () => {
    for (const [flag, value] of [
      ['--kind', 'nothing'],
      ['--cases', '1e3'],
      ['--nothing', '1'],
    ] as const) {
      const { status, stderr } = run(flag, value)
      expect([status, stderr.includes('Usage: npm run fuzz')]).toEqual([2, true])
    }
  })
})
