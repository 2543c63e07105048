// `sluice senml to-cbor` and `to-json`, each as a process.

import { decode, encode } from 'cbor-x'
import { describe, test } from 'vitest'
import { faultOf, outputOf } from './command.ts'

const pack =
  '[{"bver":5,"bn":"m:","bt":0.5,"n":"b","v":-1.5,"x":[1,{"y":null}]},{"vd":"_-8","n":"ü"},{"n":"c","vs":"ü","s":9007199254740993}]'
const rightPack = pack.replace('"n":"ü"', '"n":"d"')

describe.concurrent('sluice senml to-cbor and to-json', () => {
  test('to-cbor writes the pack as it is: labels as integers, vd as bytes, unknown labels kept', async ({ expect }) => {
    const records = decode(await outputOf(['senml', 'to-cbor'], rightPack)) as object[]
    // That the keys are integers shows in hexadecimal text, below: an object has them as text either way.
    expect(records).toEqual([
      { '-1': 5, '-2': 'm:', '-3': 0.5, 0: 'b', 2: -1.5, x: [1, { y: null }] },
      { 8: Buffer.from([0xff, 0xef]), 0: 'd' },
      { 0: 'c', 3: 'ü', 5: 9007199254740993n },
    ])
  })

  test('to-json gives back what to-cbor was given', async ({ expect }) => {
    const cbor = await outputOf(['senml', 'to-cbor'], rightPack)
    expect((await outputOf(['senml', 'to-json'], cbor)).toString()).toBe(`${rightPack}\n`)
  })

  test('with --hex the CBOR is hexadecimal text, in small letters and on one line', async ({ expect }) => {
    const hex = (await outputOf(['senml', 'to-cbor', '--hex'], '[{"n":"a","v":10}]')).toString()
    expect(hex).toBe('81a2006161020a\n')
    expect((await outputOf(['senml', 'to-json', '--hex'], hex.toUpperCase())).toString()).toBe('[{"n":"a","v":10}]\n')
  })

  test('both ways of one pack resolve to the same records', async ({ expect }) => {
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

  test('CBOR that is taken for JSON is recognised', async ({ expect }) => {
    expect(await faultOf(['senml', 'resolve'], Buffer.from('81a2006161020a', 'hex'))).toBe(
      'the pack looks like CBOR: add --content-type application/senml+cbor',
    )
  })
})
