// The settings of kafkajs for TLS and logins; none where `SECURED` names no file.
'use strict'

const { readFileSync } = require('fs')

const named = process.env.SECURED
const file = named ? JSON.parse(readFileSync(named, 'utf8')) : {}
const read = path => (path ? readFileSync(path, 'utf8') : undefined)

module.exports = {
  ssl: file.ca && { ca: [read(file.ca)], key: read(file.key), cert: read(file.certificate) },
  sasl: file.mechanism && {
    mechanism: file.mechanism.toLowerCase(),
    username: file.user,
    password: file.password,
  },
}
