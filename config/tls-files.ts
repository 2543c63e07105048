// Certificates and keys for TLS, read from PEM files and tried before anything listens or connects with them.

import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import type { ServerTls } from './http/server.ts'
import { SecretError } from './secrets.ts'

export interface TlsFiles {
  readonly certFile?: string
  readonly keyFile?: string
  readonly caFile?: string
}

export interface TlsTexts {
  readonly cert?: string
  readonly key?: string
  readonly ca?: string
}

/**
 * @param section of the options that name the files, for the message: `internal`
 * @returns undefined where no file is named
 * @throws SecretError for a file that cannot be read, and for what is no certificate or not its key
 */
export async function readTlsFiles(section: string, { certFile, keyFile, caFile }: TlsFiles): Promise<TlsTexts | undefined> {
  if (certFile === undefined && keyFile === undefined && caFile === undefined) return undefined
  const texts = {
    ...(certFile === undefined ? {} : { cert: await readPem(`${section}.cert_file`, certFile) }),
    ...(keyFile === undefined ? {} : { key: await readPem(`${section}.key_file`, keyFile) }),
    ...(caFile === undefined ? {} : { ca: await readPem(`${section}.ca_file`, caFile) }),
  }
  try {
    // The context itself takes an authority without a certificate, and then nobody is known.
    for (const certificate of [texts.cert, texts.ca]) if (certificate !== undefined) void new X509Certificate(certificate)
    createSecureContext(texts)
  } catch (cause) {
    const files = [certFile, keyFile, caFile].filter(path => path !== undefined).join(', ')
    throw new SecretError(`TLS cannot be opened with ${files}: give certificates as PEM, and the private key that belongs to the first`, {
      cause,
    })
  }
  return texts
}

/** The same for a server: undefined without a certificate and its key. */
export async function readServerTls(section: string, files: TlsFiles): Promise<ServerTls | undefined> {
  const { cert, key, ca } = (await readTlsFiles(section, files)) ?? {}
  return cert === undefined || key === undefined ? undefined : { cert, key, ...(ca === undefined ? {} : { ca }) }
}

async function readPem(option: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new SecretError(`${option}: the file ${JSON.stringify(path)} cannot be read (${code}): give the path of a PEM file`, { cause })
  }
}
