// The internal listener over TLS, for clients of one authority alone.
//
// fixtures/ holds an authority, a certificate of it for each side, and one of nobody's, made once by openssl and valid for a century.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test, vi } from 'vitest'
import { readTlsFiles } from '../../../config/tls-files.ts'
import { openRemoteAccess, type RemoteAccess } from '../../../control-plane/remote/access.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { makeSite } from '../../up/operator.ts'
import { controlPlaneOutage, recordingLogger } from '../platform.ts'
import { credentialOf, openInstance } from './instance.ts'

const fixture = (name: string): string => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url))
const pem = (name: string): string => readFileSync(fixture(name), 'utf8')

interface Shown {
  readonly certFile?: string
  readonly keyFile?: string
  readonly caFile?: string
}

describeWithPostgres('mutual TLS', postgres => {
  async function openRemote(url: string, shown: Shown): Promise<RemoteAccess> {
    const access = openRemoteAccess({
      url,
      tls: await readTlsFiles('control', shown),
      outage: controlPlaneOutage(recordingLogger().logger),
    })
    onTestFinished(() => access.close())
    return access
  }
  const authority = { caFile: fixture('ca.pem') }
  const client = { certFile: fixture('client.pem'), keyFile: fixture('client-key.pem') }
  const stranger = { certFile: fixture('stranger.pem'), keyFile: fixture('stranger-key.pem') }

  test('who shows a certificate of the authority is answered and hears changes, without a token; nobody else is', async () => {
    const tls = { cert: pem('server.pem'), key: pem('server-key.pem'), ca: pem('ca.pem') }
    const { platform, internalUrl } = await openInstance(await postgres.createDatabase(), { tls, token: undefined })
    const site = await makeSite(platform.url)
    const question = { credential: credentialOf(site.device), channel: site.channel, action: 'publish' } as const

    const known = await openRemote(internalUrl, { ...authority, ...client })
    expect(await known.authorize(question)).toMatchObject({ allowed: true, publisher: site.thing })
    await vi.waitFor(() => known.check())
    // Without a certificate, with one of another authority, and where the client does not know the server's authority.
    const unknowns = [
      [authority, /cannot be asked/],
      [{ ...authority, ...stranger }, /cannot be asked/],
      [client, /its certificate is not trusted .*control\.ca_file \(SVC_CONTROL_CA_FILE\)/],
    ] as const
    for (const [shown, reason] of unknowns) {
      const unknown = await openRemote(internalUrl, shown)
      await expect(unknown.authorize(question)).rejects.toThrow(reason)
      await expect(unknown.check()).rejects.toThrow(/changes are not heard/)
    }
    const plain = await openRemote(internalUrl.replace('https', 'http'), {})
    await expect(plain.authorize(question)).rejects.toThrow(/cannot be asked/)
    await expect(plain.reach()).rejects.toThrow(/speaks TLS: write control\.url \(SVC_CONTROL_URL\) with https/)
  })
})

test('files that are missing, no PEM, or not the key of the certificate are told with the option before anything opens', async () => {
  const files = { certFile: fixture('server.pem'), keyFile: fixture('server-key.pem'), caFile: fixture('ca.pem') }
  expect(Object.keys((await readTlsFiles('internal', files))!)).toEqual(['cert', 'key', 'ca'])
  expect(await readTlsFiles('internal', {})).toBeUndefined()
  await expect(readTlsFiles('internal', { ...files, keyFile: fixture('absent.pem') })).rejects.toThrow(
    /internal\.key_file: the file ".*absent\.pem" cannot be read \(ENOENT\)/,
  )
  for (const wrong of [
    { certFile: fileURLToPath(import.meta.url) },
    { keyFile: fixture('client-key.pem') },
    { caFile: fixture('server-key.pem') },
  ]) {
    const failed = readTlsFiles('internal', { ...files, ...wrong })
    await expect(failed).rejects.toMatchObject({ name: 'SecretError', message: expect.stringMatching(/TLS cannot be opened with/) })
  }
})
