// `sluice senml to-cbor` and `to-json`, each as a process.

import { decode, encode } from 'cbor-x'
import { describe, test } from 'vitest'
import { faultOf, outputOf } from './command.ts'

const pack = '[{"bver":5,"bn":"m:","bt":0.5,"n":"b","v":-1.5,"x":[1,{"y":null}]},{"vd":"_-8","n":"ü"},{"n":"c","vs":"ü","s":4294967297}]'
const rightPack = pack.replace('"n":"ü"', '"n":"d"')

describe.concurrent('sluice senml to-cbor and to-json', () => {
  test('to-cbor converts the pack unchanged: labels as integers, vd as bytes, unknown labels kept', async ({ expect }) => {
    const records = decode(await outputOf(['senml', 'to-cbor'], rightPack)) as object[]
    // The test of hexadecimal text below shows that the keys are integers: in an object they are text either way.
    expect(records).toEqual([
      { '-1': 5, '-2': 'm:', '-3': 0.5, 0: 'b', 2: -1.5, x: [1, { y: null }] },
      { 8: Buffer.from([0xff, 0xef]), 0: 'd' },
      { 0: 'c', 3: 'ü', 5: 4294967297 },
    ])
  })

  test('to-json reverses to-cbor', async ({ expect }) => {
    const cbor = await outputOf(['senml', 'to-cbor'], rightPack)
    expect((await outputOf(['senml', 'to-json'], cbor)).toString()).toBe(`${rightPack}\n`)
  })

  test('with --hex the CBOR is hexadecimal text, in lower case and on one line', async ({ expect }) => {
    const hex = (await outputOf(['senml', 'to-cbor', '--hex'], '[{"n":"a","v":10}]')).toString()
    expect(hex).toBe('81a2006161020a\n')
    expect((await outputOf(['senml', 'to-json', '--hex'], hex.toUpperCase())).toString()).toBe('[{"n":"a","v":10}]\n')
  })

  test('both formats of a pack resolve to the same records', async ({ expect }) => {
    const now = ['--now', '1700000000']
    const hex = await outputOf(['senml', 'to-cbor', '--hex'], rightPack)
    const [fromJson, fromCbor] = await Promise.all([
      outputOf(['senml', 'resolve', ...now], rightPack),
      outputOf(['senml', 'resolve', ...now, '--hex'], hex),
    ])
    expect(fromCbor.toString()).toBe(fromJson.toString())
    expect(fromJson.toString()).toContain('"bver":5')
  })

  test('a pack that breaks a rule is not converted', async ({ expect }) => {
    expect(await faultOf(['senml', 'to-cbor'], pack)).toMatch(/^record 1: the name "m:ü" .* \(rule name-characters\): /)
    expect(await faultOf(['senml', 'to-json'], encode([{ 0: 'a' }]))).toMatch(/^record 0: /)
    expect(await faultOf(['senml', 'to-json'], '[{"n":"a","v":1}]')).toMatch(/\(rule [a-z-]+\): /)
  })
})
